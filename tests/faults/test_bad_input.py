"""Whatever comes in, the outcome is typed and logged, the exit code right, and nothing outside our folders changes.

Generated states and bundles, most in this process, and a sample as whole processes. Most are refused at the first
look, so some more are states that are in order and ask every feature for anything.
"""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, crio_annotations, not_none, state
from hosts.hostile_inputs import NASTY, STRANGE, Inputs
from hosts.machines import MACHINES, write_sysfs

from resctrl_hooks.core.node.container.oci import parse_state, read_bundle
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.feature import SKIP
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.host.procfs import cgroups_of
from resctrl_hooks.core.node.registry import concerns, feature_named

pytestmark = pytest.mark.no_cover
CASES = int(os.environ.get("HOSTILE_CASES", "800"))
WHOLE_PROCESSES = CASES // 80


class Watch:
    """Sees each path that this process opens for writing, makes, renames or removes, as the interpreter audits it."""

    CHANGES = frozenset(
        f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "symlink", "chmod", "link", "truncate")
    )

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        sys.addaudithook(self._see)

    @contextmanager
    def over(self, host: Host, cgroup: str) -> Iterator[None]:
        """Fail where anything outside the resctrl root, the state directory, the log and ``cgroup`` is changed."""
        self.allowed = (f"{host.resctrl}/", f"{host.state}/", str(host.log), f"{cgroup}/")
        self.parents = {str(path) for path in (host.state, *host.state.parents)}
        self.orphans: list[object] = []
        try:
            yield
        finally:
            self.allowed = ()
        assert self.orphans == []

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.allowed:
            return
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        given = {"os.rename": arguments[:2], "os.symlink": arguments[1:2]}.get(event, arguments[:1])
        for path in (one for one in given if (writes or event in self.CHANGES) and isinstance(one, str)):
            inside = path.startswith(self.allowed) and "/../" not in f"{path}/"
            if not inside and not (event in ("os.mkdir", "os.chmod") and path in self.parents):  # made on the way
                self.orphans.append((event, path))


WATCH = Watch()


def hostile_host(folder: Path, **config: Any) -> Host:
    """Return a host whose bundles may be anything."""
    host = Host(folder, **config)
    host.state.parent.mkdir()
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    names = ("fifo", "link", "locked", "folder", "huge", "made")
    files = {name: Path(host.bundle({}, f"bundles/{name}"), "config.json") for name in names}
    for name in ("fifo", "link", "locked", "folder"):
        files[name].unlink()
    os.mkfifo(files["fifo"])
    files["link"].symlink_to("/etc/passwd")
    files["locked"].touch(mode=0)
    files["folder"].mkdir()
    os.truncate(files["huge"], 1 << 30)
    return host


def others(host: Host) -> set[Path]:
    """Return every path outside of our folders and the kernel's."""
    ours = (host.state, host.resctrl, host.log)
    return {path for path in host.root.rglob("*") if not any(path == one or one in path.parents for one in ours)}


def check_names(host: Host) -> None:
    """Whatever is in our folders has a name that may be there."""
    for group in host.groups():
        name = group.rpartition("/")[2]
        assert name == name.lower()
        assert set(name) <= set("0123456789abcdef-") or name == ID
    for path in host.state.rglob("*") if host.state.exists() else ():
        assert path.name.isprintable()


# The annotations of features with plausible values, besides hostile ones.
ASKED = {
    "class.memtierd.nri.io": ("swap", "never"),
    "class.memtierd.nri.io/c0": ("swap", ""),
    "memory.swap.max.memtierd.nri.io": ("max", "10M"),
    "memory.high.memtierd.nri.io/c0": ("1G", "4095", "010"),
    "class.rdt.resctrl-hooks.io": ("gold",),
    "rdt.resources.beta.kubernetes.io/container.c0": ("gold",),
    "io.kubernetes.cri.rdt-class": ("gold",),
    "cpus.placement.resctrl-hooks.io": ("exclusive:2", "mixed:99999999999", "exclusive:\u00b2", "reserved"),
    "pool.placement.resctrl-hooks.io": ("default",),
    "prefer-shared-cpus.resource-policy.nri.io": ("true", "false"),
    "prefer-isolated-cpus.resource-policy.nri.io/pod": ("true",),
    "hide-hyperthreads.resource-policy.nri.io/container.c0": ("true",),
    "class.blockio.resctrl-hooks.io/c0": ("slow",),
    "blockio.resources.beta.kubernetes.io/pod": ("slow",),
    "class.scheduling.resctrl-hooks.io": ("background",),
}
ALL_MAY: dict[str, Any] = {"enabled": True, "allow": {"*": ["*"]}}
EVERY_FEATURE: dict[str, Any] = {
    "classes": [{"name": "swap", "allowswap": True}, {"name": "never", "allowswap": False}],
    "memory": {"allowLimits": {"*": ["*"]}},
    "rdt": ALL_MAY,
    "placement": {**ALL_MAY, "reservedCpus": "0"},
    "blockio": {**ALL_MAY, "classes": {"slow": [{"weight": 50}]}},
    "scheduling": {**ALL_MAY, "classes": {"background": {"cpuWeight": 20, "memoryLow": "64M"}}},
}
CGROUP_FILES = {
    "cgroup.controllers": "cpu cpuset io memory", "cpu.weight": "100", "cpuset.cpus": "",
    "cpuset.mems": "", "io.weight": "default 100", "memory.current": "0", "memory.high": "max", "memory.low": "0",
    "memory.max": "max", "memory.swap.max": "max",
}  # fmt: skip


def demanding(inputs: Inputs) -> dict[str, Any]:
    """Return a state that is one, of a container that asks for anything, in annotations and in its bundle."""
    draw = inputs.random
    notes: dict[str, Any] = crio_annotations()
    for name, sensible in draw.sample(sorted(ASKED.items()), draw.randrange(1, 5)):
        notes[name] = draw.choice(sensible if draw.random() < 0.7 else NASTY)
    if draw.random() < 0.2:
        notes[draw.choice(sorted(notes))] = draw.choice(NASTY)
    strange = draw.choice(STRANGE)
    resources: tuple[Any, ...] = (
        {}, {"cpu": {"shares": 2048}, "memory": {"limit": 1 << 30}}, {"cpu": {"shares": strange}},
        {"cpu": {"quota": strange, "period": draw.choice(STRANGE)}}, {"cpu": strange, "memory": strange},
        {"unified": {"cpu.weight": strange}}, {"unified": strange}, {"cpu": {"cpus": strange}},
        {"blockIO": strange, "memory": {"limit": draw.choice(STRANGE)}}, strange,
    )  # fmt: skip
    path = draw.choice(["/x", *NASTY]) if draw.random() < 0.2 else "/x"
    linux = {"resources": draw.choice(resources), "cgroupsPath": path}
    if draw.random() < 0.2:
        linux["intelRdt"] = {"closID": draw.choice(["gold", *NASTY])}
    status = draw.choice(["creating", "created", "created", "stopped"])
    bundle = inputs.host.bundle({"annotations": notes, "linux": linux})
    return state(bundle=bundle, annotations=notes, status=status)


def check_output(stderr: str, where: object) -> None:
    assert "Traceback" not in stderr, where
    assert "internal error in resctrl-hook" not in stderr, where


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_any_request_to_every_feature_has_a_defined_outcome(tmp_path: Path, policy: str) -> None:
    """Use states that pass validation, so that their requests reach the features."""
    machine = write_sysfs(MACHINES["two packages of two nodes"], tmp_path / "sys")
    host = hostile_host(tmp_path, failurePolicy=policy, sysPath=machine, **EVERY_FEATURE)
    host.add_class("gold")
    cgroup = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
    for name, text in CGROUP_FILES.items():
        (cgroup / name).write_text(text + "\n")
    host.bundle()
    before = others(host)
    inputs = Inputs(11, host)
    reasons: set[str] = set()
    codes = set()
    for number in range(CASES // 4):
        told = demanding(inputs)
        with WATCH.over(host, str(cgroup)):
            outcome = host.call(told)
        codes.add(outcome.code)
        where = (number, told, outcome)
        check_output(outcome.stderr, where)
        found = re.findall(r"reason=(\S+)", outcome.log)
        reasons.update(found)
        assert bool(outcome.stderr) <= bool(found), where
        if told["status"] == "stopped":
            assert outcome.code == 0, where
        elif policy == "fail":
            assert (outcome.code == 79) is bool(outcome.stderr), where
        host.log.unlink(missing_ok=True)
    assert others(host) == before
    check_names(host)
    assert codes == {0, 79}, "memory classes refuse by default"
    assert reasons >= {"bad-key", "bad-input", "refused"}
    assert policy == "fail" or reasons >= {"bad-class", "class", *FEATURES.keys() & {"placement"}}


def test_feature_that_does_not_apply_has_no_steps(tmp_path: Path) -> None:
    """Hooks do not import such features, so their work would be missing."""
    classes = [{"name": "swap", "memtierdconfig": "policy: {}"}]
    placement = {**ALL_MAY, "namespaces": ["other"]}
    host = hostile_host(tmp_path, **EVERY_FEATURE | {"classes": classes, "placement": placement})
    context = host.context()
    inputs = Inputs(12, host)
    left_out: Counter[str] = Counter()
    for _ in range(CASES // 20):
        told = parse_state(json.dumps(demanding(inputs)).encode())
        try:
            workload = derive(told, read_bundle(told.bundle), cgroups_of(context.proc, 100), str(host.cgroup))
        except HookError:
            continue
        for name in FEATURES:
            if not concerns(name, workload, context.settings):
                left_out[name] += 1
                steps = not_none(feature_named(name)).plan(workload, context)
                assert [step.action for step in steps if step.action != SKIP] == [], (name, workload.annotations)
    assert set(left_out) == set(FEATURES) - {"monitoring"}


def test_bad_input_to_hook_process_has_a_defined_outcome(tmp_path: Path) -> None:
    host = hostile_host(tmp_path, failurePolicy="fail")
    before = others(host)
    inputs = Inputs(7, host)
    codes = set()
    for _ in range(WHOLE_PROCESSES):
        data = inputs.state()
        outcome = host.call(data, alone=True)
        codes.add(outcome.code)
        check_output(outcome.stderr, data[:500])
        assert (outcome.code == 79) <= outcome.stderr.count("\n") <= 1, (data[:500], outcome.stderr)
    assert codes == {0, 79}
    assert others(host) == before
    check_names(host)
