"""Arm's MPAM: a model after the kernel's source, which no Arm machine has confirmed, and the node half on it."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts.monitored import monitored_host
from hosts.shared_node import RULES, SharedNode
from houses import missing

from resctrl_hooks.core.inventory.gather import rmids_of
from resctrl_hooks.core.node.resctrl.rmids import free_rmids, rmids_of_each_class
from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.lab.simulation.counters import domain_folders
from resctrl_hooks.lab.simulation.errors import RefusedError
from resctrl_hooks.lab.simulation.files import class_files, group_files, info_files
from resctrl_hooks.lab.simulation.machine import Machine
from resctrl_hooks.lab.simulation.model import Resctrl


def model(limbo: float = 0.0) -> Resctrl:
    """Four classes of three ids each, without a mount; its time stands still."""
    return Resctrl(Machine(vendor="arm", pmg=3, partids=4, limbo=limbo), clock=lambda: 1000.0)


def refusal(sim: Resctrl, rdt_class: str, name: str) -> int | None:
    """The errno with which a group of a class is refused; None for a group."""
    try:
        sim.make_monitored(sim.classes.get(rdt_class, sim.root), name)
    except RefusedError as refused:
        return refused.errno
    return None


def test_occupancy_is_all_that_is_counted_and_num_rmids_counts_all_classes() -> None:
    sim = model()
    files = info_files(sim)
    shown = {name: files[name].read(sim.root) for name in ("L3_MON/mon_features", "L3_MON/num_rmids", "L3/num_closids")}
    assert [*shown.values()] == ["llc_occupancy\n", "12\n", "4\n"]
    assert "MB/thread_throttle_mode" not in files
    assert {place.events for place in domain_folders(sim.machine).values()} == {("llc_occupancy",)}


def test_each_class_runs_out_of_its_own_ids_and_each_limbo_is_its_own() -> None:
    sim = model(limbo=1.0)
    sim.make_class("gold")
    assert [refusal(sim, "", name) for name in "abc"] == [None, None, errno.ENOSPC]
    assert [refusal(sim, "gold", name) for name in "abc"] == [None, None, errno.ENOSPC]
    sim.remove(sim.root.monitored["a"])
    assert refusal(sim, "", "c") == errno.ENOSPC, "the other class has free ids"
    sim.remove(sim.classes["gold"])
    sim.make_class("silver")
    assert sim.classes["silver"].closid == 2, "a new class has no ids in limbo"
    sim = model()
    sim.make_class("gold")
    for rdt_class in ("", "gold"):
        assert refusal(sim, rdt_class, "a") is None
    moved, other = sim.root.monitored["a"], sim.classes["gold"].monitored["a"]
    sim.rename(moved, sim.classes["gold"], "b")
    assert moved.rmid == other.rmid, "a renamed group can have the id of another in its new class"


def test_free_rmids_are_those_of_the_class(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, pmg=3)
    resctrl = node.context().monitor.resctrl
    node.add_class("gold")
    node.start()
    assert rmids_of_each_class(resctrl) == 3
    assert (free_rmids(resctrl, ""), free_rmids(resctrl, "gold")) == (1, 2)
    found = rmids_of(resctrl, 3)
    assert found is not None
    assert (found.total, found.free, found.free_in("")) == (18, 3, 1)
    assert found.classes_text() == "root class 1, gold 2"


@pytest.mark.fuse
def test_list_doctor_and_metrics_show_the_free_rmids_of_each_class(tmp_path: Path) -> None:
    text = "ree by class: root class 0, gold 2"
    with (
        mounted(tmp_path / "resctrl", vendor="arm", pmg=3, partids=4) as path,
        monitored_host(tmp_path, path) as host,
    ):
        (host.resctrl / "gold").mkdir()
        for number in range(2):
            host.pod(number, f"web-{number}")
        assert host.json("list")["rmids"] == {"total": 12, "used": 4, "free": 2, "freeByClass": {"": 0, "gold": 2}}
        assert text in host.run("list").output
        (told,) = [one for one in json.loads(host.run("doctor", "--json").stdout)["items"] if one["check"] == "RMIDs"]
        assert (told["level"], text in told["text"]) == ("warning", True)
        if "observe" not in missing():
            lines = host.run("metrics").output.splitlines()
            for name, free in (("", 0), ("gold", 2)):
                assert f'resctrl_class_free_rmids{{rdt_class="{name}"}} {free}.0' in lines


def test_group_does_not_follow_its_pod_into_another_class(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, pmg=3)
    node.add_class("extra")
    pod = node.start()
    node.kernel.model.write_tasks(node.kernel.model.classes["extra"], f"{pod.pid}\n", (1, 0))
    node.kernel.show_tasks()
    node.reconcile()
    assert node.kernel.groups() == {("", pod.key), ("extra", pod.key)}


def test_id_is_handed_over_and_reserved_within_a_class_only_and_holders_in_others_are_not_asked(tmp_path: Path) -> None:
    node = SharedNode(tmp_path / "shared", pmg=2, priority=RULES)
    node.add_class("extra")
    batch, other = node.start("batch"), node.start("batch", rdt_class="extra")
    gold = node.start("gold", rdt_class="extra")
    assert (node.counted(), node.waiting()) == ([batch, gold], [other.key])
    node.check()
    node = SharedNode(tmp_path / "reserve", pmg=3, priority=RULES, reserve={"rmids": 1, "above": 50})
    pods = [node.start("batch"), node.start("batch")]
    assert node.counted() == pods[:1]
    node = SharedNode(tmp_path / "many", pmg=20, priority=RULES)
    node.add_class("extra")
    mine = [node.start("gold", rdt_class="extra") for _ in range(18)]
    batch = node.start("batch", rdt_class="extra")
    others = [node.start("batch") for _ in range(19)]  # more than a hook asks
    gold = node.start("gold", rdt_class="extra")
    assert (node.counted(), node.waiting()) == ([*mine, *others, gold], [batch.key])


def test_turns_go_round_within_each_class(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, pmg=2, share={"interval": 0.0001, "atLeast": 0.0})
    node.add_class("extra")
    first, second = node.start(), node.start(rdt_class="extra")
    third = node.start(rdt_class="extra")
    assert node.counted() == [first, second]
    assert [*node.reconcile().events["handover"]] == [third.key]
    assert node.counted() == [first, third]
    node.check()


ARM = {"vendor": "arm", "pmg": 3, "partids": 4}


@pytest.mark.parametrize(
    "resource, owner, nodes, numbers",
    [("L3", "L3", "", (0, 1)), ("MB", "MB", "0-1,10", (0, 1, 10)), ("NODE", "MB", "3", (3,)), ("X", "X", "", (0, 1))],
)
def test_bandwidth_counts_in_a_layout(resource: str, owner: str, nodes: str, numbers: tuple[int, ...]) -> None:
    hardware: dict[str, Any] = {**ARM, "bandwidth": resource, "memory_nodes": nodes}
    machine = Machine(assignable_counters=1, other_schemata="MB_MIN:0=5 GMB:0=8", **hardware)
    sim = Resctrl(machine, clock=lambda: 1000.0)
    files = info_files(sim)
    places = {folder: place.events for folder, place in domain_folders(sim.machine).items()}
    assert [folder for folder, events in places.items() if "mbm_total_bytes" in events] == [
        f"mon_{resource}_{number:02d}" for number in numbers
    ]
    shown = {name: files[f"{owner}_MON/{name}"].read(sim.root) for name in ("num_mbm_cntrs", "available_mbm_cntrs")}
    assert [*shown.values()] == [";".join(f"{n}={free}" for n in numbers) + "\n" for free in (1, 0)]
    assert files[f"{owner}_MON/mbm_assign_mode"].read(sim.root) == "[mbm_event]\n"
    own = group_files(sim)[f"mbm_{owner}_assignments"]
    assert own.read(sim.root) == f"mbm_total_bytes:{';'.join(f'{n}=e' for n in numbers)}\n"
    text = class_files(sim)["schemata"].read(sim.root)
    assert text.startswith("MB_MIN:0=5\nGMB:0=8\n")
    limited = numbers if resource in ("MB", "NODE") else (0, 1)
    assert f"MB:{';'.join(f'{n}=100' for n in limited)}\n" in text
    with pytest.raises(RefusedError):
        sim.write_assign_mode("default")


@pytest.mark.parametrize(
    "hardware, words",
    [
        ({"bandwidth": "MB"}, "requires Arm"),
        ({"memory_nodes": "0-1"}, "memory_nodes"),
        ({**ARM, "bandwidth": "mb x"}, "name of a resource"),
        ({**ARM, "bandwidth": "L3", "memory_nodes": "1"}, "not L3"),
        ({**ARM, "assignable_counters": 1}, "with bandwidth"),
    ],
)
def test_impossible_layout_is_refused(hardware: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Machine(**hardware)


OCCUPANCY_ONLY = "drivers/resctrl/mpam_resctrl.c:949 (mpam_resctrl_pick_counters)"
RMIDS_OF_CLASSES = "fs/resctrl/monitor.c:205 (resctrl_find_free_rmid)"
ARM_DIFFERS = {
    "test_l3_counter_is_a_number_or_a_word_and_a_newline": OCCUPANCY_ONLY,
    "test_bandwidth_grows_while_a_task_lives_and_local_is_part_of_it": OCCUPANCY_ONLY,
    "test_class_includes_its_mon_groups": OCCUPANCY_ONLY,
    "test_new_group_counts_bandwidth_from_zero": OCCUPANCY_ONLY,
    "test_rename_keeps_the_counters": OCCUPANCY_ONLY,
    "test_group_limit_is_the_smallest_num_rmids_of_which_the_root_and_each_class_have_one": RMIDS_OF_CLASSES,
    "test_class_without_rmid_returns_its_closid": RMIDS_OF_CLASSES,
    "test_freed_rmid_is_in_limbo_and_mkdir_is_ebusy": RMIDS_OF_CLASSES,
    "test_removed_class_frees_the_rmids_of_its_mon_groups": RMIDS_OF_CLASSES,
    "test_invalid_write_is_einval_with_words": "drivers/resctrl/mpam_resctrl.c:999 (arch_has_sparse_bitmasks)",
}
"""The conformance tests in which Arm's processors differ, each with the line of Linux 7.2 that says so."""


@pytest.mark.ci
@pytest.mark.fuse
def test_model_of_arm_differs_from_conformance_only_where_the_kernel_source_does(tmp_path: Path) -> None:
    # Groups in limbo are left out: each class has its own, and the tests wait for EBUSY only.
    with mounted(tmp_path / "r", rmids=16, vendor="arm", pmg=8, partids=6, cpus=2, limbo=0.0) as path:
        words = ["-q", "-p", "no:cacheprovider", "-m", "not kernel_only", "-k", "not processors", "-o", "addopts=-rfE"]
        command = [sys.executable, "-m", "pytest", *words, str(Path(__file__).parents[1] / "conformance")]
        settings = os.environ | {"RESCTRL_ROOT": path}
        said = subprocess.run(command, env=settings, capture_output=True, text=True, check=False).stdout
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", said, re.MULTILINE)
    assert {*failed} == ARM_DIFFERS.keys(), said
