"""The modules that a host gets: those of the houses that it needs, and those that these import."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host
from hosts.faults import Fail
from hosts.node_half import payload_once as payload

from resctrl_hooks.core.config.applied import apply_file
from resctrl_hooks.core.install.houses import missing, needed
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.install.payload import folder_name, is_payload_folder
from resctrl_hooks.core.install.plan import plan
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.parts import PARTS
from resctrl_hooks.core.node.settings import Settings

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import StepRecord

ALL_HOUSES = pytest.mark.houses("observe", "placement", "nri")


@ALL_HOUSES
@pytest.mark.parametrize("features", [[*FEATURES], pytest.param([], marks=pytest.mark.ci)])
def test_modules_without_sampling_have_all_their_imports(tmp_path: Path, host: Host, features: list[str]) -> None:
    modules = payload(["placement", "memtierd", "nfd"], features=features).modules
    for room in ("memtierd/", "blockio.py", "scheduling.py", "memory.py"):
        assert bool(features) == any(path.startswith(f"core/node/features/{room}") for path in modules)
    assert bool(features) == ("placement/node/feature.py" in modules)
    assert not [path for path in modules if path.startswith("observe/node/")]
    assert "core/node/resctrl/open_files.py" not in modules, "others import it for types only"
    packages = {f"{parent}/__init__.py" for path in modules for parent in Path(path).parents}
    assert packages & payload(["observe", "placement"]).modules.keys() <= modules.keys()
    for path, data in modules.items():
        (tmp_path / "half" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "half" / path).write_bytes(data)
    names = [path.removesuffix(".py").replace("/", ".") for path in modules if not path.endswith("__init__.py")]
    names = [name for name in names if name != "core.node.launch"]  # it is a script
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfor name in {names!r}: __import__('half.' + name)"
    launch = [str(tmp_path / "half/core/node/launch.py"), "--config", str(host.config), "reconcile"]
    for words in (["-c", script], launch):
        done = subprocess.run([sys.executable, "-I", "-S", "-B", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@ALL_HOUSES
@pytest.mark.parametrize(
    "settings, house",
    [
        ({"history": {"enabled": True}}, "observe"),
        ({"slowdown": {"enabled": True}}, "observe"),
        ({"rdt": {"guard": {"mode": "observe"}}}, "observe"),
        ({"placement": {"enabled": True}}, "placement"),
        ({"classes": [{"name": "swap", "memtierdconfig": "policy: {}"}]}, "memtierd"),
    ],
)
def test_house_that_settings_need_is_installed(settings: dict[str, Any], house: str) -> None:
    assert needed(Settings(settings)) == [house]
    assert needed(Settings(settings), ["nri"]) == sorted(["nri", house])


@ALL_HOUSES
@pytest.mark.parametrize(
    "path, house",
    [("state/placement.cpus", "placement"), ("state/guard-lease.json", "observe"), ("features", "nfd")],
)
def test_house_with_changed_values_on_the_node_stays_installed(tmp_path: Path, path: str, house: str) -> None:
    settings = Settings({"stateDir": "/state", "nodeFeaturesPath": "/features"})
    (tmp_path / "state").mkdir()
    assert needed(settings, root=str(tmp_path)) == []
    (tmp_path / path).touch()
    assert needed(settings, root=str(tmp_path)) == [house]


@pytest.mark.houses("placement")
def test_house_with_steps_in_a_record_stays_installed(tmp_path: Path, fail: Fail) -> None:
    settings = Settings({"stateDir": "/state"})
    ledger = Ledger(str(tmp_path / "state"))
    ledger.prepare()
    steps: list[StepRecord] = [{"feature": "placement", "action": "set", "needs": {"request": {}}}]
    ledger.write_member("pod", "c1", {"id": "c1", "key": "pod", "boot": "", "steps": steps})
    assert needed(settings, root=str(tmp_path)) == ["placement"]
    fail(Ledger, "keys", LedgerError("unreadable"))
    assert needed(settings, root=str(tmp_path)) == ["memtierd", "placement"]


@pytest.mark.houses("observe", "placement")
def test_missing_code_is_named_by_what_needs_it() -> None:
    settings = Settings({"placement": {"enabled": True}, "history": {"enabled": True}})
    assert missing(Manifest(houses=[]), settings) == ["resctrl-hooks-guard.service", "placement"]
    assert missing(Manifest(houses=["observe"]), settings) == ["placement"]
    assert missing(Manifest(houses=["observe", "placement"]), settings) == []
    assert missing(Manifest(), settings) == [], "an earlier version installed all"


@pytest.mark.parametrize(
    "text, houses",
    [
        pytest.param("placement: {enabled: true}", ["placement"], marks=pytest.mark.houses("placement")),
        ("history: {enabled: true}", []),  # it has a service, which only an installation with active settings installs
        ("placement: {enabled: 3}", []),
        ("placement: [", []),
    ],
)
def test_feature_of_an_edited_configuration_is_installed_before_it_is_applied(
    tmp_path: Path, text: str, houses: list[str]
) -> None:
    config = tmp_path / "etc/resctrl-hooks/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("failurePolicy: fail\n")
    apply_file(str(config))
    assert json.loads(config.with_name("config.json").read_text())["failurePolicy"] == "fail"
    assert plan(("crio",), "/etc/resctrl-hooks/config.yaml", root=str(tmp_path)).payload.rooms == []
    config.write_text(f"failurePolicy: fail\n{text}\n")
    os.utime(config, ns=(1, 1))
    assert plan(("crio",), "/etc/resctrl-hooks/config.yaml", root=str(tmp_path)).payload.rooms == houses


def test_parts_of_all_houses_are_in_one_module() -> None:
    modules = payload().modules
    assert [path for path in modules if path.endswith("/node/part.py")] == ["core/node/part.py"]
    shipped: dict[str, Any] = {}
    exec(modules["core/node/parts.py"].decode().replace("from .part", "from resctrl_hooks.core.node.part"), shipped)
    plain: Any = [{**part, "features": {k: vars(row) for k, row in part.get("features", {}).items()}} for part in PARTS]
    for part, expected in zip(shipped["PARTS"], plain, strict=True):
        assert {**part, "features": {k: vars(row) for k, row in part.get("features", {}).items()}} == expected


def test_folder_name_depends_on_all_names_and_contents() -> None:
    names = {folder_name(modules) for modules in ({"a": b"", "b": b"x"}, {"a": b"x", "b": b""}, {"ab": b"x"})}
    assert len(names) == 3
    assert all(map(is_payload_folder, names))
    assert folder_name({"a": b"1", "b": b"2"}) == folder_name({"b": b"2", "a": b"1"})
    others = ("node-", "0123456789ab", "node-0123456789a", "node-0123456789abc", "node-0123456789ag")
    assert not any(map(is_payload_folder, others))
