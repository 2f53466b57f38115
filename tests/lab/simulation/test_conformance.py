"""The conformance tests tested: a simulation with one behaviour broken must fail the test that is named for it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

CONFORMANCE = Path(__file__).parents[1] / "conformance"
SERVE = """
from resctrl_hooks.lab.simulation import assignment, counters, cpus, errors, group, ids, machine
from resctrl_hooks.lab.simulation import model, mount, proc, schemata, tasks, tree
def instead_of(owner, name):
    real = getattr(owner, name)
    return lambda broken: setattr(owner, name, lambda *given: broken(real, *given))
{broken}
mount.serve_here({path!r}, mount.Machine(rmids=16, {machine}), lambda: print("ready", flush=True))
"""
PYTEST: tuple[str, ...] = (
    *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not kernel_only"),
    *("-p", "pytest_timeout", "-o", "addopts=--strict-markers -rA --tb=no"),
)


AMD = "vendor='amd', assignable_counters=4"


class Broken(NamedTuple):
    """The code that breaks a behaviour, the test that must notice, and the machine."""

    code: str
    test: str
    machine: str = ""


BROKEN: dict[str, Broken] = {
    "no limbo": Broken("ids.Rmids.free = lambda s, rmid: s._free.append(rmid)", "test_freed_rmid_is_in_limbo"),
    "limbo is ENOSPC": Broken(
        "@instead_of(ids.Rmids, 'take')\n"
        "def broken(take, self, closid):\n"
        "    try: return take(self, closid)\n"
        "    except OSError: raise errors.RefusedError(28, 'Out of RMIDs')",
        "test_freed_rmid_is_in_limbo",
    ),
    "a class takes no RMID": Broken(
        "@instead_of(model.Resctrl, 'make_class')\n"
        "def broken(make, self, name):\n"
        "    make(self, name); self._rmids._free.append(self.classes[name].rmid)",
        "test_group_limit_is_the_smallest",
    ),
    "endless CLOSIDs": Broken("ids.Closids.take = lambda s, limbo: 7", "test_exhausted_closids_are_enospc"),
    "no words": Broken("model.Resctrl.status = property(lambda s: 'ok\\n')", "test_mon_group_of_another_class"),
    "any class": Broken("group.Group.ctrl = property(lambda s: s.parent)", "test_mon_group_of_another_class"),
    "own tasks only": Broken("tasks.Tasks.listed = lambda s, g: s.of(g)", "test_class_lists_the_tasks_of_its_mon"),
    "all ids exist": Broken("proc.Proc.life = lambda s, t: proc.Life(1, False)", "test_missing_task_is_esrch"),
    "whole processes": Broken(
        "@instead_of(tasks.Tasks, '_move')\n"
        "def broken(move, self, tid, group, uid):\n"
        "    for thread in self._proc.threads(tid): move(self, thread, group, uid)\n"
        "    return move(self, tid, group, uid)",
        "test_pid_moves_one_thread",
    ),
    "tasks are lost": Broken("tasks.Tasks.hand_over = lambda *a: None", "test_rmdir_of_mon_group_returns_tasks"),
    "anybody may": Broken("proc.Proc.owners = lambda s, t: (65534, 65534)", "test_only_root_and_the_owner"),
    "rename stays in the class": Broken(
        "@instead_of(model.Resctrl, 'rename')\n"
        "def broken(rename, self, group, parent, name):\n"
        "    was = group.parent; rename(self, group, parent, name); group.parent = was",
        "test_rename_into_another_class_removes_tasks",
    ),
    "any mask": Broken("schemata._mask = lambda text, *a: int(text, 16)", "test_invalid_write_is_einval"),
    "counts go on": Broken("counters.Counters.start = lambda s, g: None", "test_new_group_counts_bandwidth_from_zero"),
    "a class's own": Broken("group.Group.family = lambda s: iter([s])", "test_class_includes_its_mon_groups"),
    "CPUs of others": Broken(
        "cpus.assign = lambda g, m, *a: setattr(g, 'cpus', m)",
        "test_class_takes_cpus_from_another",
    ),
    "counters without end": Broken(
        "assignment.Assignments._free = lambda s, domain: 1",
        "test_missing_free_counter_is_enospc",
        AMD,
    ),
    "all or nothing": Broken(
        "@instead_of(assignment.Assignments, '_set')\n"
        "def broken(change, self, group, event, domains, *rest):\n"
        "    return change(self, group, event, list(domains)[:1], *rest)",
        "test_domains_with_free_counter_keep_it",
        AMD,
    ),
    "counts go on when unassigned": Broken(
        "counters.Counters._restart = lambda *a: None",
        "test_reassigned_counter_starts_at_0",
        AMD,
    ),
    "per cent everywhere": Broken(
        "machine.VENDORS = {'amd': machine.VENDORS['intel']}",
        "test_info_and_schemata_are_those_of_the_processor[AMD]",
        AMD,
    ),
    "a mode that there isn't": Broken(
        "assignment.Assignments.mode_text = lambda s: '[mbm_event]\\ndefault\\n'",
        "test_info_and_schemata_are_those_of_the_processor[AMD without ABMC]",
        "vendor='amd'",
    ),
    "every cluster has all RMIDs": Broken(
        "machine.Machine.groups = property(lambda s: 99)",
        "test_clusters_are_parts",
        "clusters=2, cpus=4",
    ),
    "one mask for both": Broken(
        "model.Resctrl.write_schemata = lambda s, g, t: [m.update({0: 3}) for m in g.masks.values()]",
        "test_info_and_schemata_are_those_of_the_processor[CDP]",
        "cdp=True",
    ),
    "energy of 0 before a task ran": Broken(
        "value = counters.Counters._value\ncounters.Counters._value = lambda *a: value(*a) or 0.0",
        "test_energy_is_unavailable_in_package",
        "energy=True, cpus=2",
    ),
    "energy restarts": Broken(
        "@instead_of(counters.Counters, 'start')\n"
        "def broken(start, self, group):\n"
        "    start(self, group); self._meters[group.rmid].work.clear()",
        "test_energy_of_recycled_rmid_continues",
        "energy=True, cpus=2",
    ),
    "rmdir of all": Broken("tree.Tree.remove = lambda *a: None", "test_operation_is_refused"),
}


ARM = "vendor='arm', pmg=8, partids=6, cpus=2, limbo=0.0"
"""A processor with MPAM. Groups in limbo are left out: each class has its own, and the tests wait for EBUSY only."""
_OCCUPANCY_ONLY = "drivers/resctrl/mpam_resctrl.c:949 (mpam_resctrl_pick_counters)"
_RMIDS_OF_CLASSES = "fs/resctrl/monitor.c:205 (resctrl_find_free_rmid)"
ARM_DIFFERS = {
    "test_l3_counter_is_a_number_or_a_word_and_a_newline": _OCCUPANCY_ONLY,
    "test_bandwidth_grows_while_a_task_lives_and_local_is_part_of_it": _OCCUPANCY_ONLY,
    "test_class_includes_its_mon_groups": _OCCUPANCY_ONLY,
    "test_new_group_counts_bandwidth_from_zero": _OCCUPANCY_ONLY,
    "test_rename_keeps_the_counters": _OCCUPANCY_ONLY,
    "test_group_limit_is_the_smallest_num_rmids_of_which_the_root_and_each_class_have_one": _RMIDS_OF_CLASSES,
    "test_class_without_rmid_returns_its_closid": _RMIDS_OF_CLASSES,
    "test_freed_rmid_is_in_limbo_and_mkdir_is_ebusy": _RMIDS_OF_CLASSES,
    "test_removed_class_frees_the_rmids_of_its_mon_groups": _RMIDS_OF_CLASSES,
    "test_invalid_write_is_einval_with_words": "drivers/resctrl/mpam_resctrl.c:999 (arch_has_sparse_bitmasks)",
}
"""The conformance tests in which Arm's processors differ, each with the line of Linux 7.2 that says so."""


def failures(path: Path, code: str, tests: str, machine: str = "") -> set[str]:
    """Return the names of the conformance tests among `tests` that fail on a simulation broken with `code`."""
    serve = SERVE.format(broken=code, path=str(path), machine=machine)
    with subprocess.Popen([sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        try:
            words = [*PYTEST, str(CONFORMANCE), "-k", tests.partition("[")[0]]
            settings = os.environ | {"RESCTRL_ROOT": str(path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            done = subprocess.run(words, env=settings, capture_output=True, text=True, check=False)
        finally:
            server.send_signal(signal.SIGTERM)
    results = [line.partition(" ") for line in done.stdout.splitlines()]
    passed = [name for result, _, name in results if result == "PASSED"]
    failed = [name.partition(" - ")[0] for result, _, name in results if result in ("FAILED", "ERROR")]
    assert passed or failed, done.stdout
    return {name.rpartition("::")[2] for name in failed}


@pytest.mark.fuse
@pytest.mark.parametrize("what", ["no limbo", *(pytest.param(one, marks=pytest.mark.ci) for one in [*BROKEN][1:])])
def test_broken_simulation_fails_named_test(tmp_path: Path, what: str) -> None:
    broken = BROKEN[what]
    found = failures(tmp_path / "r", broken.code, broken.test, broken.machine)
    assert any(name.startswith(broken.test) for name in found)


@pytest.mark.ci
@pytest.mark.fuse
def test_correct_simulation_passes_and_model_of_arm_differs_only_where_the_kernel_source_does(tmp_path: Path) -> None:
    tests = " or ".join({one.test for one in BROKEN.values() if not one.machine})
    assert failures(tmp_path / "r", "", tests) == set()
    failed = failures(tmp_path / "r", "", "not processors", ARM)
    assert {name.partition("[")[0] for name in failed} == set(ARM_DIFFERS)
