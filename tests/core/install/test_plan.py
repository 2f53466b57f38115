"""The files of an installation without writing them: its plan, the modules, the settings and the hook's JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Host
from golden import Golden
from hosts.faults import Fail
from hosts.node_half import payload_once as payload

from core.install.plans import Planned, parsed, paths, planned
from core.install.staged import CONFIG, given
from resctrl_hooks.core.config.applied import apply_file
from resctrl_hooks.core.install.houses import missing, needed
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.install.paths import BOOT_CODE, HOOK_NAME, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import folder_name, is_payload_folder
from resctrl_hooks.core.install.plan import Plan, plan
from resctrl_hooks.core.install.pod import REMEDY, outdated
from resctrl_hooks.core.install.roles import DROP_IN, LINK, SETTINGS
from resctrl_hooks.core.install.roles import FEATURES as FACTS
from resctrl_hooks.core.install.unit_files import BY_HOUSE, resident, units
from resctrl_hooks.core.install.units import COMPILE, EXEC, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.parts import PARTS
from resctrl_hooks.core.node.settings import Settings

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import StepRecord
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.install.hook_json import hook_json, hook_problems
from resctrl_hooks.core.install.plan import mounted_otherwise
from resctrl_hooks.core.install.settings_files import FIRST, compiled_files, unapplied, with_sections
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG
from resctrl_hooks.core.parts import Addition

__all__ = ("planned",)


COMPILED = CONFIG.replace(".yaml", ".json")


def shown(found: Plan) -> str:
    """Return a plan as text."""
    targets = {file.path: f" -> {file.data.decode()}" for file in found.files if file.role == LINK}
    lines = [f"{file.mode:o} {file.role:<9} {file.path}{targets.get(file.path, '')}" for file in found.files]
    lines += [f"{name}: {' '.join(paths)}" for name, paths in found.registrations.items()]
    return "\n".join([*lines, *(f"note: {note}" for note in found.notes)])


@pytest.mark.parametrize(
    "runtimes, options, there",
    [
        (["crio"], {}, {}),
        (["crio", "podman"], {"nfd": True}, {CONFIG: "monitoring: {exec: reconcile}\n"}),
        (["podman"], {"with_units": False}, {CONFIG: "namespaces: 5\n", COMPILED: '{"format": 1}'}),
        (["crio"], {}, {f"{UNITS}/{MOUNT}": "[Mount]\n"}),
    ],
    ids=["defaults", "two runtimes", "without units", "mounted otherwise"],
)
def test_files_are_in_the_order_of_writing(
    golden: Golden,
    planned: Planned,
    tmp_path: Path,
    runtimes: list[str],
    options: dict[str, Any],
    there: dict[str, str],
) -> None:
    for path, text in there.items():
        given(tmp_path, path, text)
    golden(shown(planned(*runtimes, **options)))


def test_mount_unit_of_an_earlier_installation_stays(planned: Planned, tmp_path: Path) -> None:
    unit = given(tmp_path, f"{UNITS}/{MOUNT}", "[Mount]\n")
    earlier = {file.path: file for file in planned("crio", earlier_units=True).files}
    unit.write_bytes(earlier[f"{UNITS}/{MOUNT}"].data)
    assert f"{UNITS}/{MOUNT}" in {file.path for file in planned("crio").files}, "exactly our content: a lost record"


def test_units_have_the_paths_of_the_settings(planned: Planned, tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "stateDir: /var/rh\nresctrlPath: /mnt/rt\nnodeFeaturesPath: /srv/nfd/x\n")
    for _ in range(2):  # the second finds a compiled file
        found = planned("crio", nfd=True)
        (text,) = (file.data.decode() for file in found.files if file.path == f"{UNITS}/{RECONCILE}")
        assert all(f"-{path}" in text for path in ("/var/rh", "/mnt/rt", "/srv/nfd"))
        assert paths(found, FACTS) == ["/srv/nfd/x"]
        for file in found.files:
            if file.role == SETTINGS:
                given(tmp_path, file.path, file.data.decode())


@pytest.mark.parametrize("runtime", ["crio", "podman"])
def test_runtime_that_reads_no_writable_directory_gets_a_drop_in(
    golden: Golden, planned: Planned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: str
) -> None:
    monkeypatch.setattr("resctrl_hooks.core.install.directories._writable", lambda path: VENDOR_HOOKS not in path)
    found = planned(runtime)
    lines = [line for line in shown(found).splitlines() if HOOK_NAME in line or "hook directories" in line]
    (drop_in,) = (file for file in found.files if file.role == DROP_IN)
    golden("\n".join([*lines, drop_in.path, drop_in.data.decode()]))
    given(tmp_path, drop_in.path, drop_in.data.decode())
    assert shown(planned(runtime)) == shown(found), "our own drop-in does not count"


# The manifests of the pod that installs


def test_manifests_of_another_version_are_named() -> None:
    assert outdated("", "2") == outdated("2", "2") == ""
    assert outdated("1", "2") == "the DaemonSet's manifests are of version 1, its image is of 2"
    unknown = outdated("unknown", "2")
    assert unknown.startswith("the DaemonSet's manifests are of version unknown, its image is of 2; older ones do not ")
    assert "of the image's version" in REMEDY


# The units' text: their commands, their order, and their dependence on the settings

ODD = {"state": "/var/lib/r h/100%", "boot_code": f"{BOOT_CODE}/node-x", "options": "cdp"}


@pytest.mark.parametrize("name", [unit.name for unit in BY_HOUSE["core"]])
def test_unit_of_core_is_valid(golden: Golden, name: str) -> None:
    """A changed line is a decision: for example, only the initial network namespace has the process connector."""
    usual = units(CONFIG)[name].decode()
    golden(usual)
    odd = units('/etc/my "odd" 100%/$x.yaml', **ODD)[name].decode().splitlines()
    golden("\n".join(line for line in odd if line not in usual.splitlines()), "odd paths")
    values = [(key, value) for section in parsed(usual).values() for key, value in section.items()]
    assert [key for key, value in values if not value and key != "CapabilityBoundingSet"] == []


def test_units_and_runtimes_of_absent_houses_are_absent() -> None:
    script = (
        "from resctrl_hooks.core import parts; parts.HOUSES = ('core',)\n"
        "from resctrl_hooks.core.install.unit_files import ALL, RESIDENT; print(*RESIDENT, *ALL)\n"
        "from resctrl_hooks.core.install.directories import RUNTIMES; print(*RUNTIMES)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [EXEC, MOUNT, COMPILE, RECONCILE, EXEC, TIMER, WAKE, "crio", "podman"]


def test_exec_watcher_is_needed_unless_processes_stay_or_reconcile_moves_them() -> None:
    assert resident(Settings()) == [EXEC]
    assert resident(Settings({"monitoring": {"exec": "leave"}})) == []


# The modules that a host gets: those of the houses that it needs, and those that these import


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


# The configuration of an installation: the initial one, an existing one, and a section that is added to it


FOLDER = CONFIG.rpartition("/")[0]
COMPILED, LAST = f"{FOLDER}/config.json", f"{FOLDER}/config.last.json"
JSON = "/etc/mine/settings.json"
SECTION = Addition("scheduling", b"\n# Of a house.\nscheduling:\n  enabled: true\n", (), "")


def applied(root: Path, yaml: str, **settings: Any) -> None:
    """Put a configuration and its newer compiled file below a root."""
    given(root, CONFIG, yaml)
    given(root, COMPILED, json.dumps({"format": 1, **settings}))
    os.utime(root / CONFIG.lstrip("/"), (1, 1))


@pytest.mark.parametrize("added", [[], [SECTION]])
def test_new_configuration_is_compiled_to_two_files(tmp_path: Path, added: list[Addition]) -> None:
    found = compiled_files(CONFIG, str(tmp_path), added)
    assert [*found] == [CONFIG, LAST, COMPILED], "the file that hooks read is last"
    assert found[CONFIG] == (FIRST + SECTION.text if added else FIRST)
    assert json.loads(found[COMPILED]).get("scheduling", {}).get("enabled", False) is bool(added)
    assert found[LAST] == found[COMPILED]


def test_existing_configuration_is_compiled_and_not_written_and_a_compiled_one_stays(tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "namespaces: [shop]\n")
    found = compiled_files(CONFIG, str(tmp_path), [SECTION])
    assert [*found] == [LAST, COMPILED]
    assert json.loads(found[COMPILED])["namespaces"] == ["shop"]
    given(tmp_path, CONFIG, "namespaces: 5\n")
    with pytest.raises(InvalidConfigError):
        compiled_files(CONFIG, str(tmp_path))
    given(tmp_path, COMPILED, '{"format": 1}')
    assert compiled_files(CONFIG, str(tmp_path)) == {}
    assert compiled_files(JSON, str(tmp_path)) == {JSON: b'{"format": 1}\n'}
    given(tmp_path, JSON, "{}")
    assert compiled_files(JSON, str(tmp_path)) == {}, "the first format had no number"


@pytest.mark.parametrize("config, compiled", [(CONFIG, COMPILED), (JSON, JSON)])
@pytest.mark.parametrize(
    "text, why",
    [
        ("[]", " is not a compiled configuration"),
        ('{"format": 2}', " is not a compiled configuration"),
        ("{", " is not a compiled configuration: "),
        ('{"namespaces": 3}', "namespaces"),
    ],
)
def test_compiled_file_that_hooks_cannot_read_is_refused(
    tmp_path: Path, config: str, compiled: str, text: str, why: str
) -> None:
    given(tmp_path, compiled, text)
    with pytest.raises(SettingsError, match=f"{tmp_path}{compiled}.*{why}"):
        compiled_files(config, str(tmp_path))


@pytest.mark.parametrize(
    "yaml, settings, found",
    [
        ("", {}, True),  # an empty file is a mapping too
        ("a: 1\n", {"scheduling": {"enabled": True}}, False),
        ("scheduling: {}\n", {"scheduling": {}}, None),
        ("scheduling: {enabled: false}\n", {"scheduling": {"enabled": False}}, None),
    ],
)
def test_section_is_left_to_the_operator_if_its_section_exists(
    tmp_path: Path, yaml: str, settings: dict[str, Any], found: bool | None
) -> None:
    applied(tmp_path, yaml, **settings)
    files = with_sections(CONFIG, [SECTION], str(tmp_path))
    assert (files if files is None else bool(files)) == found


def test_section_is_left_to_the_operator_without_an_applied_yaml_file(tmp_path: Path) -> None:
    assert with_sections(CONFIG, [SECTION], str(tmp_path)) is None
    given(tmp_path, JSON, "{}")
    assert with_sections(JSON, [SECTION], str(tmp_path)) is None
    given(tmp_path, CONFIG, "namespaces: []\n")
    assert with_sections(CONFIG, [SECTION], str(tmp_path)) is None, "it was never applied"
    applied(tmp_path, "namespaces: []\n")
    os.utime(tmp_path / COMPILED.lstrip("/"), (-10, -10))
    assert with_sections(CONFIG, [SECTION], str(tmp_path)) is None, "it was edited since"


@pytest.mark.parametrize(
    "yaml, compiled, number",
    [
        ("namespaces: 5\n", "{}", 2),
        ("namespaces: 5\ngroupPrefix: 3\n", "{}", 3),
        ("namespaces: []\n", "{}", 0),
        ("namespaces: 5\n", None, 0),
        (None, "{}", 0),
    ],
)
def test_invalid_configuration_beside_an_active_one_is_reported(
    tmp_path: Path, yaml: str | None, compiled: str | None, number: int
) -> None:
    for path, text in ((CONFIG, yaml), (COMPILED, compiled)):
        if text is not None:
            given(tmp_path, path, text)
    found = unapplied(CONFIG, str(tmp_path))
    assert len(found) == number
    if found:
        assert found[0].startswith("error: ")
        assert found[-1] == f"{COMPILED} stays active until {CONFIG} is fixed and applied"
    given(tmp_path, JSON, "{")
    assert unapplied(JSON, str(tmp_path)) == []


@pytest.mark.parametrize(
    "line, is_mounted",
    [
        ("resctrl /sys/fs/resctrl resctrl cdp 0 0", True),
        ("none /sys/fs/resctrl resctrl", True),
        ("# resctrl /sys/fs/resctrl resctrl cdp 0 0", False),
        ("resctrl /sys/fs/resctrl tmpfs resctrl", False),
        ("resctrl /x", False),
        ("", False),
    ],
)
def test_fstab_mounts_resctrl_by_a_line_of_its_type(tmp_path: Path, line: str, is_mounted: bool) -> None:
    assert mounted_otherwise(str(tmp_path), ours=False) is False
    given(tmp_path, "etc/fstab", f"/dev/sda1 / ext4 defaults 0 1\n\xff\n{line}\n")
    assert mounted_otherwise(str(tmp_path), ours=True) is is_mounted
    given(tmp_path, f"etc/systemd/system/{MOUNT}")
    assert mounted_otherwise(str(tmp_path), ours=False), "a foreign unit mounts it"


# The registered JSON against the rules of its readers, and the repository's copy of it


REPOSITORY = Path(__file__).parents[3]


def changed(**changes: Any) -> bytes:
    value = json.loads(hook_json(DEFAULT_CONFIG)) | changes
    return json.dumps({key: item for key, item in value.items() if item is not None}).encode()


def test_own_json_is_valid_and_in_the_repository() -> None:
    assert (REPOSITORY / "hooks.d/resctrl-hooks.json").read_bytes() == hook_json(DEFAULT_CONFIG)
    assert len(hook_problems(changed(extra=1, hook={}, when=None, stages=["a", "b"]))) == 5


@pytest.mark.parametrize(
    "text, problem",
    [
        (b"", "invalid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "version is not 1.0.0"),
        (changed(version="0.1.0"), "version is not 1.0.0"),
        (changed(stages=["createRuntime", "createruntime"]), "unknown stage 'createruntime'"),
        (changed(stages=[]), "stages is empty"),
        (changed(stages=None), "stages is empty"),
        (changed(stages="poststop"), "stages is empty"),
        (changed(when=None), "the condition (when) is missing"),
        (changed(when={}), "the condition (when) is missing"),
        (changed(when={"always": "yes"}), "when.always has the wrong type"),
        (changed(when={"commands": "sh"}), "when.commands has the wrong type"),
        (changed(when={"sometimes": True}), "unknown key when.sometimes"),
        (changed(hook=None), "hook is missing"),
        (changed(hook=[]), "hook is missing"),
        (changed(hook={"args": []}), "hook.path is not an absolute path"),
        (changed(hook={"path": "bin/sh"}), "hook.path is not an absolute path"),
        (changed(hook={"path": "/bin/sh", "timeout": 0}), "hook.timeout is not a positive number of seconds"),
        (changed(hook={"path": "/bin/sh", "timeout": True}), "hook.timeout is not a positive number of seconds"),
        (changed(hook={"path": "/bin/sh", "args": "sh"}), "hook.args is not a list of strings"),
        (changed(hook={"path": "/bin/sh", "env": ["A=1", 2]}), "hook.env is not a list of strings"),
        (changed(hook={"path": "/bin/sh", "argv": []}), "unknown key hook.argv"),
        (changed(extra=1), "unknown key extra"),
    ],
)
def test_invalid_json_is_found(text: bytes, problem: str) -> None:
    assert hook_problems(text) == [problem]


@pytest.mark.parametrize(
    "text",
    [
        hook_json(DEFAULT_CONFIG),
        changed(hook={"path": "/bin/sh"}),
        changed(hook={"path": "/bin/sh", "args": ["sh"], "env": ["A=1"], "timeout": 1}),
        changed(when={"always": False, "annotations": {"^a": "b"}, "commands": ["sh"], "hasBindMounts": True}),
        changed(stages=["prestart", "createContainer", "startContainer", "poststart", "precreate"]),
    ],
)
def test_other_valid_json_has_no_problem(text: bytes) -> None:
    assert hook_problems(text) == []
