"""Totals never decrease: after any sequence of events, and for several readers at a time."""

import multiprocessing
from pathlib import Path

import pytest
from hosts.counter_tree import TOTAL, remake, say
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.resctrl.monitor import Monitor

from .test_counter_totals import KEY, Tree


@settings(deadline=None)  # it works on disk
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["say", "remake", "move", "Unavailable", "Unassigned"]), st.integers(0, 50)),
        max_size=12,
    )
)
def test_total_never_decreases(steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    tree = Tree(tmp_path_factory.mktemp("tree"))
    classes = ["", "gold"]
    (tree.resctrl / "gold" / "mon_groups").mkdir(parents=True)
    group = tree.group()
    last = 0
    for number, (what, value) in enumerate(steps):
        if what == "remake":
            remake(group, tree.root / f"aside{number}")
        elif what == "move":
            classes.reverse()
            new = tree.resctrl / classes[0] / "mon_groups" / KEY
            group.rename(new)
            group = new
        say(group, mbm_total_bytes=what if what.startswith("Un") else value)
        found = tree.read().get(TOTAL)
        assert isinstance(found, int) or not last, "a total that was seen stays visible"
        if isinstance(found, int):
            assert found >= last
            last = found


def _scrapes(resctrl: str, state: str, results: "multiprocessing.SimpleQueue[list[int]]") -> None:
    monitor = Monitor(resctrl, state_dir=state)
    seen = []
    for _ in range(30):
        seen += [int(reading.value or 0) for reading in monitor.read(KEY) if reading.counter.name == "mbm_total_bytes"]
    results.put(seen)


def test_several_processes_read_the_same_totals(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    group = tree.group()
    say(group, mbm_total_bytes=0)
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.SimpleQueue[list[int]] = context.SimpleQueue()
    workers = [context.Process(target=_scrapes, args=(str(tree.resctrl), str(tree.state), results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    value = 0
    while any(worker.is_alive() for worker in workers):
        value += 7
        # Replaced, not rewritten: a reader must not meet an empty file, as it never does in the kernel's.
        new = tree.root / "new"
        new.write_text(f"{value}\n")
        new.rename(group / "mon_data" / TOTAL)
    for worker in workers:
        worker.join()
        seen = results.get()
        assert len(seen) == 30
        assert seen == sorted(seen)
        assert seen[-1] <= value
