"""`install --nfd`: the file for node-feature-discovery exists as long as the installation, and units may write it."""

from pathlib import Path

from install.staged import CONFIG, given, install, uninstall
from resctrl_hooks.install.paths import UNITS
from resctrl_hooks.install.units import RECONCILE
from resctrl_hooks.node.names import NODE_FEATURES
from resctrl_hooks.node.nfd.features import FIRST, text_of

FACTS = text_of({"monitoring": "true"}, "a-boot", 4102444800)


def features(root: Path, path: str = NODE_FEATURES) -> Path:
    return root / path.lstrip("/")


def test_file_is_created_by_option_and_readable_by_all(tmp_path: Path) -> None:
    install(tmp_path, "--runtime", "crio")
    assert not features(tmp_path).exists()
    install(tmp_path, "--runtime", "crio", "--nfd")
    assert features(tmp_path).read_text() == FIRST
    assert features(tmp_path).stat().st_mode & 0o777 == 0o644


def test_reinstallation_keeps_the_facts(tmp_path: Path) -> None:
    install(tmp_path, "--runtime", "crio", "--nfd")
    features(tmp_path).write_text(FACTS)
    install(tmp_path)
    assert features(tmp_path).read_text() == FACTS


def test_option_removes_the_file(tmp_path: Path) -> None:
    install(tmp_path, "--runtime", "crio", "--nfd")
    install(tmp_path, "--no-nfd")
    assert not features(tmp_path).exists()


def test_uninstall_removes_the_file_and_its_folder_but_no_other_programs(tmp_path: Path) -> None:
    install(tmp_path, "--runtime", "crio", "--nfd")
    uninstall(tmp_path)
    assert not features(tmp_path).parent.exists()
    other = features(tmp_path).with_name("other")
    other.parent.mkdir(parents=True)
    other.write_text("vendor.io/x=1\n")
    install(tmp_path, "--runtime", "crio", "--nfd")
    uninstall(tmp_path)
    assert [path.name for path in other.parent.iterdir()] == ["other"]


def test_unit_of_reconcile_can_write_the_configured_file(tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "nodeFeaturesPath: /srv/features.d/node\n")
    install(tmp_path, "--runtime", "crio", "--nfd")
    assert features(tmp_path, "/srv/features.d/node").exists()
    unit = (tmp_path / UNITS.lstrip("/") / RECONCILE).read_text()
    (line,) = [line for line in unit.splitlines() if line.startswith("ReadWritePaths=")]
    assert "-/srv/features.d" in line.split()
