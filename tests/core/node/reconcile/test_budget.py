"""The budget of a pass: it stops when its processor time is used, and the next pass begins with what is left."""

import time
from pathlib import Path

import pytest
from hosts.cluster import Cluster, pod_number

from resctrl_hooks.core.node.reconcile import command
from resctrl_hooks.core.node.reconcile.budget import FILE, STALLED, Budget
from resctrl_hooks.core.node.reconcile.report import Options, Report

HOUSES = ("lab",)
PODS = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return a node on which containers run that no hook has seen."""
    made = Cluster(tmp_path)
    for number in range(PODS):
        made.unseen(number, pod_number(number))
    return made


def one_pass(cluster: Cluster, seconds: float) -> Report:
    return cluster.reconcile(Options(wait=False, budget=Budget(seconds)))


def test_passes_without_processor_time_left_adopt_all_containers_one_by_one(cluster: Cluster) -> None:
    adopted = [[*one_pass(cluster, 0).events["adopted"]] for _ in range(PODS)]
    assert [len(each) for each in adopted] == [1] * PODS
    assert len({id_ for each in adopted for id_ in each}) == PODS
    assert not one_pass(cluster, 60).changed


def test_slow_pass_within_its_processor_time_adopts_all(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elapsed time does not count: each look at the clock finds that an hour has passed."""
    hours = iter(range(1, 1_000_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(hours) * 3600.0)
    report = one_pass(cluster, 60)
    assert len(report.events["adopted"]) == PODS
    assert not (Path(cluster.context().settings.state_dir) / FILE).exists()


def test_pass_that_stops_wakes_the_next_and_begins_it_there(cluster: Cluster) -> None:
    state = Path(cluster.context().settings.state_dir)
    first = [*one_pass(cluster, 0).events["adopted"]]
    assert (state / FILE).read_text() not in first
    assert (state / "wake").exists()


def test_damaged_place_to_resume_is_ignored(cluster: Cluster) -> None:
    one_pass(cluster, 0)
    (Path(cluster.context().settings.state_dir) / FILE).write_bytes(b"\xff" * 5000)
    assert len(one_pass(cluster, 60).events["adopted"]) == PODS - 1


def test_dry_run_has_no_place_to_resume(cluster: Cluster) -> None:
    cluster.reconcile(Options(dry_run=True, wait=False, budget=Budget(0)))
    assert not (Path(cluster.context().settings.state_dir) / FILE).exists()


def test_progress_postpones_the_end_of_a_hanging_pass(cluster: Cluster) -> None:
    alarms: list[int] = []
    cluster.reconcile(Options(wait=False, budget=Budget(alarm=alarms.append)))
    assert alarms == [STALLED] * (PODS + 1)


def test_command_leaves_no_alarm(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    alarms: list[int] = []
    monkeypatch.setattr("_signal.alarm", alarms.append)
    assert command.reconcile_command(str(cluster.host.config), ["--dry-run"]) == command.OK
    assert (alarms[0], alarms[-1]) == (STALLED, 0)
