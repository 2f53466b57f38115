"""Properties of a container's scope in systemd: all features in one program, and separately after a refusal."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import BOTH_POLICIES, ID, UID, Host, always
from hosts.killed_hook import Killed
from hosts.node import Outcome
from hypothesis import given
from hypothesis import strategies as st

from core.node.features import test_contract as contract
from core.node.features.test_contract import devices
from resctrl_hooks.core.node.cgroup_settings import values
from resctrl_hooks.core.node.host import cgroup, procfs

__all__ = ("devices",)
SCOPE = f"crio-{ID}.scope"
SYSTEMCTL = "/usr/bin/systemctl"
BY_FEATURE = {
    "blockio": {"IOAccounting=yes", "IOWeight=20"},
    "scheduling": {"CPUWeight=20", f"MemoryLow={contract.MIB}"},
    "memory": {"MemorySwapMax=0", f"MemoryHigh={64 * contract.MIB}"},
}
ALL = {one for properties in BY_FEATURE.values() for one in properties}
AFTER = contract.after(*contract.CASES)


class Systemd:
    """A replacement of systemctl on a node with all features: it accepts all properties except those in ``refused``."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pod = contract.node(host)
        self.host = host
        self.calls: list[set[str]] = []
        self.refused: set[str] = set()
        for name, value in {
            "available": always(value=True),
            "find_program": always(SYSTEMCTL),
            "run": self.run,
        }.items():
            monkeypatch.setattr(f"resctrl_hooks.core.node.host.systemd.{name}", value)

    def run(self, arguments: list[str], seconds: float) -> tuple[int, str]:
        assert arguments[:5] == [SYSTEMCTL, "set-property", "--runtime", "--", SCOPE]
        given = set(arguments[5:])
        assert len(given) == len(arguments[5:])
        self.calls.append(given)
        unknown = sorted(given & self.refused)
        return (1, f"Unknown assignment: {unknown[0]}") if unknown else (0, "")

    def start(self) -> Outcome:
        return self.host.call(self.pod)


@pytest.fixture
def systemd(host: Host, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """The system manager of a host on which process 100 is the init of a container in a scope."""
    monkeypatch.setattr(contract, "CGROUP", f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/{SCOPE}")
    return Systemd(host, monkeypatch)


@pytest.mark.parametrize("feature", BY_FEATURE)
def test_property_unknown_to_systemd_fails_its_feature_only(host: Host, systemd: Systemd, feature: str) -> None:
    unknown = min(BY_FEATURE[feature])
    systemd.refused = {unknown}
    outcome = systemd.start()
    assert outcome.code == 0
    assert systemd.calls == [ALL, *BY_FEATURE.values()]
    (said,) = outcome.stderr.splitlines()
    assert f"systemctl set-property {SCOPE} " in said
    assert all(one in said for one in BY_FEATURE[feature])
    assert not any(one in said for one in ALL - BY_FEATURE[feature])
    assert f"Unknown assignment: {unknown}; the values are lost at the next systemctl daemon-reload" in said
    assert contract.files(host) == AFTER


@BOTH_POLICIES
def test_limit_without_room_is_never_sent(host: Host, systemd: Systemd, policy: str, code: int) -> None:
    config = json.loads(host.config.read_text())
    config["memory"]["failurePolicy"] = policy
    host.config.write_text(json.dumps(config))
    (contract.folder(host) / "memory.current").write_text(used := str(65 << 20))
    outcome = systemd.start()
    assert outcome.code == code
    assert systemd.calls == [ALL - BY_FEATURE["memory"]]
    assert "memory.high 67108864 is below the container's current 68157440 bytes" in outcome.stderr
    assert contract.files(host) == {**AFTER, **contract.CASES["memory"].before, "memory.current": used}


def test_features_share_one_run_and_one_lookup(host: Host, systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reconcile repairs a hook that is killed after the run."""
    asked: list[int] = []

    def ask(proc: str, pid: int) -> list[procfs.Cgroup]:
        asked.append(pid)
        return procfs.cgroups_of(proc, pid)

    def die(arguments: list[str], seconds: float) -> tuple[int, str]:
        systemd.run(arguments, seconds)
        raise Killed

    monkeypatch.setattr(cgroup, "cgroups_of", ask)
    with monkeypatch.context() as patch:
        patch.setattr("resctrl_hooks.core.node.host.systemd.run", die)
        with pytest.raises(Killed):
            systemd.start()
    assert (asked, systemd.calls) == ([100], [ALL])
    assert set(host.enforce().applied) == {"blockio", "scheduling", "memory"}
    assert systemd.calls == [ALL, ALL]
    assert contract.files(host) == AFTER


def test_value_is_written_to_scope_and_to_crun_cgroup_below(tmp_path: Path) -> None:
    """A part of memory.max is that of the smaller limit of both."""
    leaf = cgroup.Leaf(str(tmp_path), "/kubepods.slice/crio-a.scope/container")
    scope, container = leaf.scope, leaf.folder
    Path(container).mkdir(parents=True)
    assert cgroup.folders_for("io.max", container, scope) == [container], "where neither has the file, its own says why"
    Path(scope, "io.max").touch()
    assert cgroup.folders_for("io.max", container, scope) == [scope], "the controller may not be enabled below"
    Path(container, "io.max").touch()
    assert cgroup.folders_for("io.max", container, scope) == [scope, container]
    for above, own, value in (("max", "1000", "500"), ("1000", "max", "500"), ("2000", "1000", "500"), ("max",) * 3):
        Path(scope, "memory.max").write_text(above)
        Path(container, "memory.max").write_text(own)
        assert values.resolved(values.part_of_max(0.5), leaf) == value


LIMITS = ("rbps", "wbps", "riops", "wiops")
ROWS = st.dictionaries(st.sampled_from(("8:0", "8:16")), st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 3)))
WANTED = st.dictionaries(st.sampled_from(LIMITS), st.integers(1, 3) | st.just("max"), min_size=1)


@given(ROWS, st.sampled_from(("8:0", "8:16")), WANTED)
def test_limits_of_a_device_are_in_place_among_those_of_others(rows: Any, device: str, wanted: Any) -> None:
    """A device without a limit has no line, and the kernel shows all four kinds of one that has."""
    shown = {one: {kind: row.get(kind, "max") for kind in LIMITS} for one, row in rows.items()}
    have = "\n".join(f"{one} {' '.join(f'{kind}={most}' for kind, most in row.items())}" for one, row in shown.items())
    value = f"{device} {' '.join(f'{kind}={most}' for kind, most in wanted.items())}"
    now = shown.get(device, dict.fromkeys(LIMITS, "max"))
    expected = all(str(now[kind]) == str(most) for kind, most in wanted.items())
    assert values.is_in_place(have, "io.max", value) == expected or set(wanted.values()) == {"max"}
