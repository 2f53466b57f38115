"""The parts of a release: notes, versions, SBOM, checksums."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest
import yaml

from project.contributed import REPOSITORY, load, needed, release
from resctrl_hooks import __version__
from resctrl_hooks.core.cli.schemas import schemas

HOUSES = ("observe", "placement", "nri", "openshift", "lab")
DEPENDENCIES: list[str] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
VERSION, CHART = load("version"), load("chart")
CHANGELOG = """# Changelog
## Unreleased
- something new

## 0.2.0 - 2026-11-22

### Fixed

- a fault

## 0.1.0

- the first
"""


def test_notes_are_those_of_the_version() -> None:
    assert release().notes("0.2.0", CHANGELOG) == "# resctrl-hooks 0.2.0\n\n### Fixed\n\n- a fault\n"
    assert release().notes("0.1.0", CHANGELOG).endswith("\n- the first\n")
    assert "something new" in release().notes("0.3.0", CHANGELOG)
    with pytest.raises(release().NoNotesError, match=r"nothing of 9\.9\.9"):
        release().notes("9.9.9", "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- the first\n")
    introduction, heading, _ = (REPOSITORY / "CHANGELOG.md").read_text().partition("\n## ")
    assert heading
    assert "\n- " not in introduction, "every change is in the notes of a version"


@pytest.mark.ci
@pytest.mark.xdist_group("release")  # built once
def test_release_has_notes_sums_machineconfig_chart_and_schemas(dist: Path) -> None:
    text = (dist / "RELEASE_NOTES.md").read_text()
    assert text.startswith(f"# resctrl-hooks {__version__}\n")
    assert text.count("\n- ") > 3
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert {line.split("  ")[1] for line in lines} == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, check=True, capture_output=True)
    (value,) = yaml.safe_load_all((dist / "99-worker-resctrl-hooks.yaml").read_text())
    assert value["metadata"]["annotations"]["resctrl-hooks.io/version"] == __version__
    assert "local: resctrl_hooks/core/node/launch.py" in (dist / "99-worker-resctrl-hooks.bu").read_text()
    with tarfile.open(dist / f"resctrl-hooks-{CHART.semantic(__version__)}.tgz") as chart:
        assert {"resctrl-hooks/Chart.yaml", "resctrl-hooks/rules.yaml"} <= set(chart.getnames())
    with tarfile.open(dist / f"resctrl-hooks-schemas-{__version__}.tar.xz") as found:
        assert set(found.getnames()) == {f"{name}.json" for name in schemas()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A Git repository of two commits that has a development version."""
    for name, text in (
        ("resctrl_hooks/__init__.py", '__version__ = "0.3.0.dev0"\n'),
        ("contrib/daemonset/metrics.yaml", "image: resctrl-hooks:0.3.0.dev0\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    for _ in range(2):
        git(tmp_path, "commit", "--quiet", "--allow-empty", "--message=a change")
    return tmp_path


def git(tree: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "tag.gpgSign=false")
    subprocess.run(["git", *identity, *words], cwd=tree, check=True, capture_output=True)


def test_version_is_set_in_each_file_and_development_versions_count_commits(tree: Path) -> None:
    assert VERSION.numbered("0.3.0.dev0", VERSION.commits_since_tag(tree)) == "0.3.0.dev2"
    git(tree, "tag", "v0.2.0")
    git(tree, "tag", "another")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message=all")
    assert VERSION.numbered("0.3.0.dev0", VERSION.commits_since_tag(tree)) == "0.3.0.dev1"
    assert VERSION.numbered("0.3.0", 1) == release().package_version("0.3.0") == CHART.semantic("0.3.0") == "0.3.0"
    older = ["dpkg", "--compare-versions", release().package_version("0.3.0.dev12"), "lt", "0.3.0"]
    subprocess.run(older, check=True)
    assert CHART.semantic("0.3.0.dev12") == "0.3.0-dev.12"
    assert not VERSION.has_changes(tree)
    VERSION.set_version(tree, "0.3.0")
    assert VERSION.has_changes(tree)
    assert VERSION.version_of(tree) == "0.3.0"
    assert (tree / "contrib/daemonset/metrics.yaml").read_text() == "image: resctrl-hooks:0.3.0\n"


def test_packages_name_their_maintainer_or_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBFULLNAME", "A Person")
    monkeypatch.setenv("DEBEMAIL", "person@example.org")
    assert release().maintainer() == "A Person <person@example.org>"
    monkeypatch.delenv("DEBEMAIL")
    assert "DEBEMAIL is not set" in release().missing_contact()
    assert "DEBFULLNAME is not set" not in release().missing_contact()
    monkeypatch.delenv("DEBFULLNAME")
    assert "placeholder" in release().maintainer()


@pytest.mark.ci
def test_sbom_is_valid_and_names_requirements(tmp_path: Path) -> None:
    """`nox -s release` makes it of an environment that has the wheel alone; this is such a one, made of links."""
    pytest.importorskip("cyclonedx")
    venv.create(tmp_path / "alone", symlinks=True)
    (packages,) = tmp_path.glob("alone/lib/python*/site-packages")
    for one in {str(one._path): one for one in needed("resctrl-hooks")}:
        (packages / Path(one).name).symlink_to(one)
    target = tmp_path / "sbom.json"
    about = ["--pyproject", "pyproject.toml", "--mc-type", "application", "--sv", "1.6", "-o", str(target)]
    command = [sys.executable, "-m", "cyclonedx_py", "environment", *about, str(tmp_path / "alone/bin/python")]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    text = release().complete_sbom(target.read_text(), {"resctrl-hooks": "a" * 64, "prometheus-client": "b" * 64})
    # In a separate process: its address checks take seconds to import.
    validate = "import sys; from cyclonedx.schema import SchemaVersion; "
    validate += "from cyclonedx.validation.json import JsonStrictValidator as Validator; "
    validate += "sys.exit(str(Validator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) or '') or None)"
    subprocess.run([sys.executable, "-c", validate], input=text, text=True, check=True)
    sbom = json.loads(text)
    assert sbom["metadata"]["component"]["purl"] == f"pkg:pypi/resctrl-hooks@{__version__}"
    components = [sbom["metadata"]["component"], *sbom["components"]]
    hashes = {one["hashes"][0]["content"]: one["name"].replace("_", "-") for one in components if "hashes" in one}
    assert hashes == {"a" * 64: "resctrl-hooks", "b" * 64: "prometheus-client"}
    names = {component["name"].lower().replace("_", "-") for component in sbom["components"]}
    assert {re.split(r"[<>=]", dependency)[0] for dependency in DEPENDENCIES} <= names


def test_hashes_match_archives_that_pip_installed() -> None:
    """The wheel itself is a file; its own hash is the release's."""
    archive = {"archive_info": {"hashes": {"sha256": "b" * 64}}}
    told = [(archive, "prometheus_client"), ({"dir_info": {}}, "other")]
    report = {"install": [{"download_info": info, "metadata": {"name": name}} for info, name in told]}
    assert release().downloaded(json.dumps(report)) == {"prometheus-client": "b" * 64}


# The Krew plugin of a release: its manifest, its archive, and the script's first and later runs


KREW = load("krew")
# Stands in for Python: its version is right, and it makes an environment whose programs say what they were asked.
PYTHON = """#!/bin/sh
echo "$*" >>"$LOG"
case $* in
-c*) exit "${OLD:-0}" ;;
"-m venv"*)
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    printf '#!/bin/sh\\necho "ran $*"\\n' >"$3/bin/kubectl-resctrl"
    chmod 755 "$3/bin/kubectl-resctrl" ;;
-m*) exit "${BROKEN:-0}" ;;
esac
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the script of a plugin as Krew installs it: unpacked, with a link in another folder."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    wheel = tmp_path / "resctrl_hooks-0.3.0.dev0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    archive, manifest = KREW.plugin(wheel, "0.3.0.dev0", None, tmp_path)
    again = archive.read_bytes()
    assert KREW.plugin(wheel, "0.3.0.dev0", None, tmp_path)[0].read_bytes() == again, "the same files each time"
    (platform,) = yaml.safe_load(manifest.read_text())["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(again).hexdigest()
    assert platform["uri"].endswith(f"/{archive.name}")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "store")  # our own archive
    (tmp_path / "python3").write_text(PYTHON)
    (tmp_path / "python3").chmod(0o755)
    link = tmp_path / "kubectl-resctrl"
    link.symlink_to(tmp_path / "store" / platform["bin"])
    return link


def run(script: Path, **more: str) -> tuple[int, str, str]:
    folder = script.parent
    env = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "LOG": str(folder / "log"), **more}
    done = subprocess.run([str(script), "top", "-A"], env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_krew_plugin_installs_its_wheel_once_and_retries_a_failure(installed: Path) -> None:
    text = (installed.parent / "krew-resctrl.yaml").read_text()
    manifest = yaml.safe_load(text)
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert (manifest["spec"]["version"], "@" in text) == ("v0.3.0-dev.0", False)
    assert len(manifest["spec"]["shortDescription"]) <= 50, "Krew's rule"
    code, out, err = run(installed, OLD="1")
    assert (code, out) == (1, "")
    assert "python3 is missing or older than 3.11" in err
    assert run(installed, BROKEN="1")[0] == 1
    assert run(installed) == (0, "ran top -A\n", "")
    log = installed.parent / "log"
    wheel = os.path.realpath(installed.parent / "store/resctrl_hooks-0.3.0.dev0-py3-none-any.whl")
    assert f"{wheel}[kubernetes]" in log.read_text()
    log.unlink()
    assert run(installed) == (0, "ran top -A\n", "")
    assert not log.exists()
