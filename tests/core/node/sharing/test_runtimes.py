"""Container runtimes come first: RMIDs stay free for the groups that they create."""

from __future__ import annotations

import errno
import json
import time
from typing import TYPE_CHECKING

import pytest
from hosts.shared_node import Pod, SharedNode

from resctrl_hooks.core.node.ledger import RUNTIMES
from resctrl_hooks.core.node.sharing import runtimes

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)


def start_own(node: SharedNode) -> Pod:
    """Start a container with a group of its runtime.

    Raises:
        OSError: the runtime cannot create it, so the container does not start.
    """
    return node.start("runtime", own_group=True)


def end_own(node: SharedNode, pod: Pod) -> None:
    node.end(pod)
    node.kernel.rmdir(node.group_of_runtime(pod))


def hours(node: SharedNode) -> list[int]:
    """Return the recorded numbers."""
    return [*json.loads((node.host.state / RUNTIMES).read_text())["hours"].values()]


def test_no_pod_takes_the_rmid_that_is_kept_for_runtimes(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=6, limbo=0)
    start_own(node)
    node.reconcile()
    assert hours(node) == [2]
    for _ in range(5):
        node.start("shop")
    assert len(node.counted()) == 2  # of 6: the root class, the runtime's group, and two that stay free
    start_own(node)
    assert "runtimes" in node.host.log.read_text()


def test_latest_pod_gives_way_if_a_runtime_takes_the_last_rmid(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=5, limbo=0)
    pods = [node.start("shop") for _ in range(3)]
    node.kernel.now += 10
    before = node.totals()
    start_own(node)  # the last one
    with pytest.raises(OSError, match="space") as refused:
        start_own(node)
    assert refused.value.errno == errno.ENOSPC
    assert (node.host.state / "wake").exists()
    node.reconcile()
    assert node.counted() == pods[:1]
    assert node.waiting() == [pods[1].key, pods[2].key]
    assert node.totals()[pods[2].key] == before[pods[2].key] > 0
    for _ in range(2):
        start_own(node)
        node.reconcile()


@pytest.mark.parametrize("number", [1, 3])
def test_configured_number_stays_free(tmp_path: Path, number: int) -> None:
    node = SharedNode(tmp_path, rmids=8, limbo=0, reserve={"runtimes": number})
    for _ in range(9):
        node.start("shop")
    assert len(node.counted()) == 7 - number
    for _ in range(number):
        start_own(node)


def test_default_is_the_most_groups_of_the_last_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 500_000
    monkeypatch.setattr(runtimes, "_hour", lambda: hour)
    node = SharedNode(tmp_path, rmids=12, limbo=0)
    own = [start_own(node) for _ in range(3)]
    node.reconcile()
    assert runtimes.reserved(node.context()) == 3
    for pod in own:
        end_own(node, pod)
    node.reconcile()
    assert runtimes.reserved(node.context()) == 3
    hour += 24
    node.reconcile()
    assert runtimes.reserved(node.context()) == 0
    assert not (node.host.state / RUNTIMES).exists()


def test_default_is_at_most_a_quarter_of_the_rmids_whatever_pods_start(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=16, limbo=0)
    for pod in [start_own(node) for _ in range(12)]:
        node.reconcile()
        end_own(node, pod)
    node.reconcile()
    assert max(runtimes.read_peaks(node.context().ledger).values()) == 12
    for _ in range(15):
        node.start("shop")
    assert len(node.counted()) == 11  # of 16: the root class, and four that stay free


@pytest.mark.parametrize(
    "text, number",
    [
        *((damaged, 2) for damaged in ("", "[", '{"hours": []}')),  # stands for one container
        *((f'{{"hours": {{"{hour}": 1}}}}', 0) for hour in ("now", "9999999", "1")),  # of none of these days
    ],
)
def test_damaged_or_outdated_record(tmp_path: Path, text: str, number: int) -> None:
    node = SharedNode(tmp_path)
    node.start("shop")
    (node.host.state / RUNTIMES).write_text(text)
    for _ in range(2):
        assert runtimes.reserved(node.context()) == number
        node.reconcile()
    assert len(node.counted()) == (number == 0)
    assert (node.host.state / RUNTIMES).exists() == bool(number)


@pytest.mark.parametrize("jump", [-3 * 3600, 40 * 86400, -1.7e9])
def test_reserve_outlives_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    node = SharedNode(tmp_path, rmids=16)
    now = time.time()
    runtimes.note(node.context().ledger, 3)
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert runtimes.reserved(node.context()) == 3
    runtimes.note(node.context().ledger, 1)
    assert runtimes.reserved(node.context()) == 3


def test_reserve_of_version_0_2_is_read(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=16)
    node.context().ledger.prepare()
    (node.host.state / RUNTIMES).write_text(json.dumps({"hours": {"1": 9, str(int(time.time()) // 3600): 3}}))
    assert runtimes.reserved(node.context()) == 3
