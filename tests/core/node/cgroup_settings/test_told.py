"""Properties of a container's scope in systemd: all features in one program, and separately after a refusal."""

from pathlib import Path
from typing import Any

import pytest
from conftest import BOTH_POLICIES, ID, UID, Host, always, crio_annotations, state
from hosts.killed_hook import Killed
from hosts.machines import machine, write_sysfs
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.cgroup_settings import values
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.node.host.cgroup import Leaf, folders_for
from resctrl_hooks.core.node.host.procfs import Cgroup, cgroups_of
from resctrl_hooks.core.node.host.programs import ProgramError

SCOPE = f"crio-{ID}.scope"
CGROUP = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/{SCOPE}"
CLASSES = ("class.memtierd.nri.io", "class.scheduling.resctrl-hooks.io", "class.blockio.resctrl-hooks.io")
ASKED = dict.fromkeys(CLASSES, "small") | {"memory.high.memtierd.nri.io": "64M"}
SYSTEMCTL = "/usr/bin/systemctl"
BEFORE = {
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "io.weight": "default 100",
    "cpu.weight": "100",
    "memory.max": "max",
    "memory.high": "max",
    "memory.swap.max": "max",
    "memory.current": "4096",
}
AFTER = {
    "io.weight": "default 300",
    "cpu.weight": "20",
    "memory.max": str(128 << 20),
    "memory.high": str(64 << 20),
    "memory.swap.max": "0",
}
PLACED = {"AllowedCPUs=0-3"}
BY_FEATURE = {
    **({"placement": PLACED} if "placement" in FEATURES else {}),
    "blockio": {"IOAccounting=yes", "IOWeight=300"},
    "scheduling": {"CPUWeight=20", f"MemoryMax={128 << 20}"},
    "memory": {"MemorySwapMax=0", f"MemoryHigh={64 << 20}"},
}
ALL = set().union(*BY_FEATURE.values())


class Systemd:
    """A replacement of systemctl: it accepts all properties except those in ``refused``."""

    def __init__(self) -> None:
        self.calls: list[set[str]] = []
        self.refused: set[str] = set()
        self.silent = False

    def run(self, arguments: list[str], seconds: float) -> tuple[int, str]:
        assert arguments[:4] == [SYSTEMCTL, "set-property", "--runtime", "--"]
        assert arguments[4] == SCOPE
        given = set(arguments[5:])
        assert len(given) == len(arguments[5:])
        self.calls.append(given)
        if self.silent:
            raise ProgramError(f"{SYSTEMCTL} did not exit within {seconds:g} s")
        unknown = sorted(given & self.refused)
        return (1, f"Unknown assignment: {unknown[0]}") if unknown else (0, "")


@pytest.fixture
def systemd(host: Host, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """The system manager of a host with all features, on which process 100 is the init of a container in a scope."""
    found = Systemd()
    monkeypatch.setattr("resctrl_hooks.core.node.host.systemd.available", always(value=True))
    monkeypatch.setattr("resctrl_hooks.core.node.host.systemd.find_program", always(SYSTEMCTL))
    monkeypatch.setattr("resctrl_hooks.core.node.host.systemd.run", found.run)
    host.process(100, CGROUP)
    for name, value in BEFORE.items():
        (folder(host) / name).write_text(value)
    configure(host)
    return found


def configure(host: Host, **sections: Any) -> None:
    allowed = {"enabled": True, "allow": {"shop": ["*"]}}
    given = {
        "sysPath": write_sysfs(machine(1, 1, 1, 4, 1), host.root / "sys"),
        "placement": {**allowed, "kubeletPath": str(host.root / "kubelet")},
        "blockio": {**allowed, "classes": {"small": [{"weight": 300}]}},
        "scheduling": {**allowed, "classes": {"small": {"cpuWeight": 20, "memoryMax": "128M"}}},
        "memory": {"allowLimits": {"shop": ["memory.high"]}},
        "classes": [{"name": "small", "allowswap": False}],
    }
    host.configure(
        **{
            name: {**present, **sections.get(name, {})} if isinstance(present, dict) else present
            for name, present in given.items()
        }
    )


def folder(host: Host) -> Path:
    return host.cgroup / CGROUP.lstrip("/")


def start(host: Host, **annotations: str) -> Any:
    return host.call(state(bundle=host.bundle(), annotations=crio_annotations() | ASKED | annotations))


def present(host: Host) -> dict[str, str]:
    return {name: (folder(host) / name).read_text() for name in AFTER}


def test_features_of_one_container_share_one_program_run_and_one_lookup_of_its_cgroup(
    host: Host, systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def ask(proc: str, pid: int) -> list[Cgroup]:
        asked.append(pid)
        return cgroups_of(proc, pid)

    monkeypatch.setattr(cgroup, "cgroups_of", ask)
    outcome = start(host)
    assert asked == [100]
    assert (outcome.code, outcome.stderr) == (0, "")
    assert systemd.calls == [ALL]
    assert present(host) == AFTER
    assert (folder(host) / "cpuset.cpus").read_text() == ("0-3" if "placement" in FEATURES else "")


@pytest.mark.parametrize("feature", BY_FEATURE)
def test_property_unknown_to_systemd_fails_its_feature_only(host: Host, systemd: Systemd, feature: str) -> None:
    unknown = min(BY_FEATURE[feature])
    systemd.refused = {unknown}
    outcome = start(host)
    assert outcome.code == 0
    assert systemd.calls == [ALL, *BY_FEATURE.values()]
    (said,) = outcome.stderr.splitlines()
    assert f"systemctl set-property {SCOPE} " in said
    assert all(one in said for one in BY_FEATURE[feature])
    assert not any(one in said for one in ALL - BY_FEATURE[feature])
    assert f"Unknown assignment: {unknown}; the values are lost at the next systemctl daemon-reload" in said
    assert present(host) == AFTER


@BOTH_POLICIES
def test_limit_without_room_is_never_sent(host: Host, systemd: Systemd, policy: str, code: int) -> None:
    configure(host, memory={"failurePolicy": policy})
    (folder(host) / "memory.current").write_text(str(65 << 20))
    outcome = start(host)
    assert outcome.code == code
    assert systemd.calls == [ALL - BY_FEATURE["memory"]]
    assert "memory.high 67108864 is below the container's current 68157440 bytes" in outcome.stderr
    assert present(host) == {**AFTER, "memory.high": "max", "memory.swap.max": "max"}


def test_hook_killed_after_systemd_call_is_repaired_by_one_reconcile(
    host: Host, systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(arguments: list[str], seconds: float) -> tuple[int, str]:
        systemd.run(arguments, seconds)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("resctrl_hooks.core.node.host.systemd.run", die)
        with pytest.raises(Killed):
            start(host)
    assert systemd.calls == [ALL]
    assert set(host.enforce().applied) == {"blockio", "scheduling", "memory"}
    assert systemd.calls == [ALL, ALL - PLACED]
    assert present(host) == AFTER


def test_value_is_written_to_scope_and_to_crun_cgroup_below(tmp_path: Path) -> None:
    leaf = Leaf(str(tmp_path), "/kubepods.slice/crio-a.scope/container")
    scope, container = Path(leaf.scope), Path(leaf.folder)
    container.mkdir(parents=True)
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(container)], (
        "where neither has the file, its own says why"
    )
    (scope / "io.max").touch()
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(scope)], "the controller may not be enabled below"
    (container / "io.max").touch()
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(scope), str(container)]


@pytest.mark.parametrize("above, own, value", [
    ("max", "1000", "500"), ("1000", "max", "500"), ("2000", "1000", "500"), ("max", "max", "max"),
])  # fmt: skip
def test_part_of_memory_max_is_that_of_the_smallest_limit(tmp_path: Path, above: str, own: str, value: str) -> None:
    leaf = Leaf(str(tmp_path), "/kubepods.slice/crio-a.scope/container")
    Path(leaf.folder).mkdir(parents=True)
    (Path(leaf.scope) / "memory.max").write_text(above)
    (Path(leaf.folder) / "memory.max").write_text(own)
    assert values.resolved(values.part_of_max(0.5), leaf) == value


LIMITS = ("rbps", "wbps", "riops", "wiops")
ROWS = st.dictionaries(st.sampled_from(("8:0", "8:16")), st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 3)))


@given(
    ROWS,
    st.sampled_from(("8:0", "8:16")),
    st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 3) | st.just("max"), min_size=1),
)
def test_limits_of_a_device_are_in_place_among_those_of_others(rows: Any, device: str, wanted: Any) -> None:
    """A device without a limit has no line, and the kernel shows all four kinds of one that has."""
    shown = {one: {kind: row.get(kind, "max") for kind in LIMITS} for one, row in rows.items()}
    have = "\n".join(f"{one} {' '.join(f'{kind}={most}' for kind, most in row.items())}" for one, row in shown.items())
    value = f"{device} {' '.join(f'{kind}={most}' for kind, most in wanted.items())}"
    now = shown.get(device, dict.fromkeys(LIMITS, "max"))
    expected = all(str(now[kind]) == str(most) for kind, most in wanted.items())
    assert values.is_in_place(have, "io.max", value) == expected or set(wanted.values()) == {"max"}
