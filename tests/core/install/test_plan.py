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

from core.install.plans import Planned, parsed, planned
from core.install.staged import CONFIG, given
from resctrl_hooks.core.cli import install as command
from resctrl_hooks.core.install.houses import missing, needed
from resctrl_hooks.core.install.manifest import Manifest
from resctrl_hooks.core.install.paths import BOOT_CODE, HOOK_NAME, UNITS, VENDOR_HOOKS
from resctrl_hooks.core.install.payload import folder_name, is_payload_folder
from resctrl_hooks.core.install.plan import Plan
from resctrl_hooks.core.install.roles import DROP_IN, LINK, SETTINGS
from resctrl_hooks.core.install.roles import FEATURES as FACTS
from resctrl_hooks.core.install.unit_files import BY_HOUSE, resident, units
from resctrl_hooks.core.install.units import COMPILE, EXEC, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.nfd.features import FIRST as FIRST_FACTS
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
    golden: Golden, planned: Planned, tmp_path: Path, runtimes: list[str], options: Any, there: dict[str, str]
) -> None:
    for path, text in there.items():
        given(tmp_path, path, text)
    golden(shown(planned(*runtimes, **options)))


@pytest.mark.parametrize("has_units", [True, False])
def test_printed_plan_starts_units_only_if_it_has_some(
    planned: Planned, capsys: pytest.CaptureFixture[str], *, has_units: bool
) -> None:
    command._print(planned("crio", with_units=has_units), live=True)
    assert ("systemd reloads and starts the units" in capsys.readouterr().out) is has_units


def test_units_have_the_paths_of_the_settings_and_facts_that_are_there_stay(planned: Planned, tmp_path: Path) -> None:
    given(tmp_path, CONFIG, "stateDir: /var/rh\nresctrlPath: /mnt/rt\nnodeFeaturesPath: /srv/nfd/x\n")
    for facts in (FIRST_FACTS, "facts\n"):  # the second finds a compiled file, and what reconcile has written
        found = planned("crio", nfd=True)
        (text,) = (file.data.decode() for file in found.files if file.path == f"{UNITS}/{RECONCILE}")
        assert all(f"-{path}" in text for path in ("/var/rh", "/mnt/rt", "/srv/nfd"))
        assert {one.path: one.data for one in found.files if one.role == FACTS} == {"/srv/nfd/x": facts.encode()}
        given(tmp_path, "srv/nfd/x", "facts\n")
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


def test_units_and_runtimes_of_absent_houses_are_absent_and_the_exec_watcher_where_it_has_no_work() -> None:
    script = (
        "from resctrl_hooks.core import parts; parts.HOUSES = ('core',)\n"
        "from resctrl_hooks.core.install.unit_files import ALL, RESIDENT; print(*RESIDENT, *ALL)\n"
        "from resctrl_hooks.core.install.directories import RUNTIMES; print(*RUNTIMES)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [EXEC, MOUNT, COMPILE, RECONCILE, EXEC, TIMER, WAKE, "crio", "podman"]
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
    sampling = [path for path in modules if path.startswith("observe/node/")]
    assert [path for path in sampling if "/temporary/" not in path] == ["observe/node/__init__.py"]
    assert "core/node/resctrl/open_files.py" not in modules, "others import it for types only"
    packages = {f"{parent}/__init__.py" for path in modules for parent in Path(path).parents}
    assert packages & payload(["observe", "placement"]).modules.keys() <= modules.keys()
    for path, data in modules.items():
        given(tmp_path, f"half/{path}").write_bytes(data)
    names = [path.removesuffix(".py").replace("/", ".") for path in modules if not path.endswith("__init__.py")]
    names.remove("core.node.launch")  # it is a script
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfor name in {names!r}: __import__('half.' + name)"
    launch = [str(tmp_path / "half/core/node/launch.py"), "--config", str(host.config), "reconcile"]
    for words in (["-c", script], launch):
        done = subprocess.run([sys.executable, "-I", "-S", "-B", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@ALL_HOUSES
def test_houses_that_settings_changed_values_and_records_need_are_installed(tmp_path: Path, fail: Fail) -> None:
    wanted: list[tuple[dict[str, Any], str]] = [
        *(({name: {"enabled": True}}, "observe") for name in ("history", "slowdown")),
        ({"rdt": {"guard": {"mode": "act"}}}, "observe"),
        ({"placement": {"enabled": True}}, "placement"),
        ({"classes": [{"name": "swap", "memtierdconfig": "policy: {}"}]}, "memtierd"),
    ]
    for values, house in wanted:
        assert needed(Settings(values)) == [house]
        assert needed(Settings(values), ["nri"]) == sorted(["nri", house])
    settings = Settings({"placement": {"enabled": True}, "history": {"enabled": True}})
    assert needed(Settings({}), edited=settings) == ["placement"], "a service is not started before they are active"
    assert missing(Manifest(houses=[]), settings) == ["resctrl-hooks-guard.service", "placement"]
    assert missing(Manifest(houses=["observe"]), settings) == ["placement"]
    assert missing(Manifest(houses=["observe", "placement"]), settings) == []
    assert missing(Manifest(), settings) == [], "an earlier version installed all"
    paths = Settings({"stateDir": "/state", "nodeFeaturesPath": "/features"})
    ledger = Ledger(str(tmp_path / "state"))
    ledger.prepare()
    files = {"state/placement.cpus": "placement", "state/guard-lease.json": "observe", "features": "nfd"}
    for path, house in files.items():
        assert needed(paths, root=str(tmp_path)) == []
        (tmp_path / path).touch()
        assert needed(paths, root=str(tmp_path)) == [house]
        (tmp_path / path).unlink()
    steps: list[StepRecord] = [{"feature": "placement", "action": "set", "needs": {"request": {}}}]
    ledger.write_member("pod", "c1", {"id": "c1", "key": "pod", "boot": "", "steps": steps})
    assert needed(paths, root=str(tmp_path)) == ["placement"]
    fail(Ledger, "keys", LedgerError("unreadable"))
    assert needed(paths, root=str(tmp_path)) == ["memtierd", "placement"]


def test_parts_of_all_houses_are_in_one_module_and_folders_are_named_by_all_contents() -> None:
    def plain(parts: Any) -> list[Any]:
        return [{**one, "features": {k: vars(row) for k, row in one.get("features", {}).items()}} for one in parts]

    modules = payload().modules
    assert [path for path in modules if path.endswith("/node/part.py")] == ["core/node/part.py"]
    shipped: dict[str, Any] = {}
    exec(modules["core/node/parts.py"].decode().replace("from .part", "from resctrl_hooks.core.node.part"), shipped)
    assert plain(shipped["PARTS"]) == plain(PARTS)
    names = {folder_name(modules) for modules in ({"a": b"", "b": b"x"}, {"a": b"x", "b": b""}, {"ab": b"x"})}
    assert len(names) == 3
    assert all(map(is_payload_folder, names))
    assert folder_name({"a": b"1", "b": b"2"}) == folder_name({"b": b"2", "a": b"1"})
    others = ("node-", "0123456789ab", "node-0123456789a", "node-0123456789abc", "node-0123456789ag")
    assert not any(map(is_payload_folder, others))


# The configuration of an installation: the initial one, an existing one, and a section that is added to it

LAST = CONFIG.replace(".yaml", ".last.json")
JSON = "/etc/mine/settings.json"
SECTION = Addition("scheduling", b"\n# Of a house.\nscheduling:\n  enabled: true\n", (), "")


def applied(root: Path, yaml: str, **settings: Any) -> None:
    """Put a configuration and its newer compiled file below a root."""
    given(root, CONFIG, yaml)
    given(root, COMPILED, json.dumps({"format": 1, **settings}))
    os.utime(root / CONFIG.lstrip("/"), (1, 1))


def test_new_configuration_is_compiled_to_two_files_and_an_existing_one_is_not_written(tmp_path: Path) -> None:
    root = str(tmp_path)
    for added in ([], [SECTION]):
        found = compiled_files(CONFIG, root, added)
        assert [*found] == [CONFIG, LAST, COMPILED], "the file that hooks read is last"
        assert found[CONFIG] == (FIRST + SECTION.text if added else FIRST)
        assert json.loads(found[COMPILED]).get("scheduling", {}).get("enabled", False) is bool(added)
        assert found[LAST] == found[COMPILED]
    given(tmp_path, CONFIG, "namespaces: [shop]\n")
    found = compiled_files(CONFIG, root, [SECTION])
    assert [*found] == [LAST, COMPILED]
    assert json.loads(found[COMPILED])["namespaces"] == ["shop"]
    given(tmp_path, CONFIG, "namespaces: 5\n")
    with pytest.raises(InvalidConfigError):
        compiled_files(CONFIG, root)
    given(tmp_path, COMPILED, '{"format": 1}')
    assert compiled_files(CONFIG, root) == {}, "a compiled one stays"
    assert compiled_files(JSON, root) == {JSON: b'{"format": 1}\n'}
    given(tmp_path, JSON, "{}")
    assert compiled_files(JSON, root) == {}, "the first format had no number"


def test_compiled_file_that_hooks_cannot_read_is_refused(tmp_path: Path, golden: Golden) -> None:
    for config, compiled in ((CONFIG, COMPILED), (JSON, JSON)):
        for text in ("[]", '{"format": 2}', "{", '{"namespaces": 3}'):
            given(tmp_path, compiled, text)
            with pytest.raises(SettingsError) as refused:
                compiled_files(config, str(tmp_path))
            golden(str(refused.value), f"{compiled} {text}")
    assert unapplied(CONFIG, str(tmp_path)) == unapplied(JSON, str(tmp_path)) == []
    given(tmp_path, CONFIG, "namespaces: 5\ngroupPrefix: 3\n")
    given(tmp_path, COMPILED, "{}")
    golden("\n".join(unapplied(CONFIG, str(tmp_path))), "invalid beside an active one")
    given(tmp_path, CONFIG, "namespaces: []\n")
    assert unapplied(CONFIG, str(tmp_path)) == []
    given(tmp_path, CONFIG, "namespaces: 5\n")
    (tmp_path / COMPILED.lstrip("/")).unlink()
    assert unapplied(CONFIG, str(tmp_path)) == []


def test_section_is_left_to_the_operator_if_it_exists_or_no_yaml_file_was_applied(tmp_path: Path) -> None:
    root, on = str(tmp_path), {"scheduling": {"enabled": True}}
    assert with_sections(CONFIG, [SECTION], root) is None
    given(tmp_path, JSON, "{}")
    assert with_sections(JSON, [SECTION], root) is None
    given(tmp_path, CONFIG, "namespaces: []\n")
    assert with_sections(CONFIG, [SECTION], root) is None, "it was never applied"
    cases: tuple[tuple[str, dict[str, Any], bool | None], ...] = (
        ("", {}, True),  # an empty file is a mapping too
        ("a: 1\n", on, False),
        ("scheduling: {}\n", {"scheduling": {}}, None),
        ("scheduling: {enabled: false}\n", {"scheduling": {"enabled": False}}, None),
    )
    for yaml, settings, added in cases:
        applied(tmp_path, yaml, **settings)
        files = with_sections(CONFIG, [SECTION], root)
        assert (files if files is None else bool(files)) == added
    applied(tmp_path, "namespaces: []\n")
    os.utime(tmp_path / COMPILED.lstrip("/"), (-10, -10))
    assert with_sections(CONFIG, [SECTION], root) is None, "it was edited since"


def test_mount_unit_is_left_out_if_something_else_mounts_resctrl(planned: Planned, tmp_path: Path) -> None:
    root, path = str(tmp_path), f"{UNITS}/{MOUNT}"
    assert not mounted_otherwise(root, ours=False)
    for line, mounts in {
        "resctrl /sys/fs/resctrl resctrl cdp 0 0": True,
        "none /sys/fs/resctrl resctrl": True,
        "# resctrl /sys/fs/resctrl resctrl cdp 0 0": False,
        "resctrl /sys/fs/resctrl tmpfs resctrl": False,
        "resctrl /x": False,
        "": False,
    }.items():
        given(tmp_path, "etc/fstab", f"/dev/sda1 / ext4 defaults 0 1\n\xff\n{line}\n")
        assert mounted_otherwise(root, ours=True) is mounts
    unit = given(tmp_path, path, "[Mount]\n")
    assert mounted_otherwise(root, ours=False), "a foreign unit mounts it"
    earlier = {file.path: file for file in planned("crio", earlier_units=True).files}
    unit.write_bytes(earlier[path].data)
    assert path in {file.path for file in planned("crio").files}, "exactly our content: a lost record"


# The registered JSON against the rules of its readers, and the repository's copy of it

REPOSITORY = Path(__file__).parents[3]

HOOK: dict[str, Any] = {"path": "/bin/sh"}
HOOKS: list[Any] = [None, [], {"args": []}, {"path": "bin/sh"}, HOOK]
WHEN: list[Any] = [None, {}, {"always": "yes"}, {"commands": "sh"}, {"sometimes": True}]
JSON_CHANGES: list[dict[str, Any]] = [
    *({"version": one} for one in ("0.1.0", None)), {"extra": 1},
    *({"stages": one} for one in (["createRuntime", "createruntime"], [], None, "poststop")),
    {"stages": ["prestart", "createContainer", "startContainer", "poststart", "precreate"]},
    *({"when": one} for one in WHEN),
    {"when": {"always": False, "annotations": {"^a": "b"}, "commands": ["sh"], "hasBindMounts": True}},
    *({"hook": one} for one in HOOKS),
    *({"hook": HOOK | {"timeout": one}} for one in (0, True, "10")), {"hook": HOOK | {"args": "sh"}},
    {"hook": HOOK | {"env": ["A=1", 2]}}, {"hook": HOOK | {"argv": []}},
    {"hook": HOOK | {"args": ["sh"], "env": ["A=1"], "timeout": 1}},
    {"extra": 1, "hook": {}, "when": None, "stages": ["a", "b"]},
]  # fmt: skip


def test_own_json_is_valid_and_problems_of_another_are_found(golden: Golden) -> None:
    own = hook_json(DEFAULT_CONFIG)
    assert (REPOSITORY / "hooks.d/resctrl-hooks.json").read_bytes() == own
    assert hook_problems(own) == []
    found = [f"{text.decode()!r} => {hook_problems(text)}" for text in (b"", b"[]")]
    for changes in JSON_CHANGES:
        value = {key: item for key, item in (json.loads(own) | changes).items() if item is not None}
        found.append(f"{changes} => {hook_problems(json.dumps(value).encode())}")
    golden("\n".join(found))
