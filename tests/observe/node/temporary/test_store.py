"""Values that are changed for a time: restored at their end, after any kill, and never after somebody else wrote."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host, temporary_host
from hosts.killed_hook import Doomed, Killed
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.observe.node.temporary import address as address_module
from resctrl_hooks.observe.node.temporary import file as file_module
from resctrl_hooks.observe.node.temporary import store as store_module
from resctrl_hooks.observe.node.temporary.address import CGROUP, CLASS, Address, is_same, read, write
from resctrl_hooks.observe.node.temporary.entry import GRACE
from resctrl_hooks.observe.node.temporary.file import TemporaryError
from resctrl_hooks.observe.node.temporary.store import EndedError, Store
from resctrl_hooks.observe.node.watch import Watch

SECONDS = 10.0
PLACES = st.sampled_from([(0, 1), (1, 0), (0,), (1,)])
KILL = st.sampled_from([0, 0, 1, 2, 3, 4, 5, 6])
"""Which of the writes of a step the kill comes before; 0: none."""


def cgroup(host: Host) -> list[Address]:
    """Make a pod's cgroup and the state directory; return the addresses of its values."""
    host.state.mkdir(parents=True)
    folder = host.cgroup / "pod"
    folder.mkdir(parents=True)
    (folder / "cpu.weight").write_text("100\n")
    (folder / "cpu.max").write_text("max 100000\n")
    return [Address(CGROUP, str(folder), name) for name in ("cpu.weight", "cpu.max")]


class Changes(Doomed, RuleBasedStateMachine):
    """Two owners change the values of a class and of a cgroup; a third program writes, too; anything is killed."""

    def __init__(self) -> None:
        super().__init__()
        self._host = temporary_host()
        self.host = self._host.__enter__()
        self._patch = pytest.MonkeyPatch()
        self.now = 1000.0
        self._patch.setattr(store_module, "boot_time", lambda: self.now)
        self.left = 0
        writes = ((address_module, "write_value"), (file_module, "write_file"), (file_module, "remove_file"))
        for owner, name in writes:
            self._patch.setattr(owner, name, self.doomed(getattr(owner, name)))
        self.context = self.host.context()
        self.addresses = cgroup(self.host)
        self.before = {one: str(self._now(one)) for one in self.addresses}
        self.foreign: dict[Address, str] = {}
        self.numbers = count(1)

    def teardown(self) -> None:
        self._patch.undo()
        self._host.__exit__(None, None, None)

    def _store(self) -> Store:
        return Store(self.context)

    def _now(self, address: Address) -> str | None:
        return read(self.context.monitor.resctrl, address)

    @rule(name=st.sampled_from("aab"), weight=st.integers(1, 9), places=PLACES, kill=KILL)
    def change(self, name: str, weight: int, places: tuple[int, ...], kill: int) -> None:
        values = {self.addresses[place]: (str(weight), f"{weight}000 100000")[place] for place in places}
        self.left = kill
        try:
            store = self._store()
            if name not in store.entries():
                store.begin(name, f"owner {name}", "a test", "", SECONDS)
            store.change(name, values, SECONDS)
        except (Killed, TemporaryError):
            return
        finally:
            self.left = 0
        assert {one: self._now(one) for one in values} == values

    @rule(name=st.sampled_from("ab"), kill=KILL)
    def end(self, name: str, kill: int) -> None:
        self.left = kill
        try:
            self._store().end(name)
        except Killed:
            return
        finally:
            self.left = 0
        assert name not in self._store().entries()

    @rule(place=st.integers(0, 1))
    def another_program_writes(self, place: int) -> None:
        address, number = self.addresses[place], 100 + next(self.numbers)
        value = (str(number), f"{number}000 100000")[place]
        Path(address.place, address.name).write_text(f"{value}\n")
        (self.foreign if self._held(address) else self.before)[address] = value

    def _held(self, address: Address) -> bool:
        return any(address in one.values for one in self._store().entries().values())

    @rule(seconds=st.sampled_from([1.0, SECONDS + GRACE + 1]), by=st.sampled_from(["store", "watch", "reconcile"]))
    def time_passes(self, seconds: float, by: str) -> None:
        self.now += seconds
        context = self.context
        if by == "store":
            Store(context).restore_over()
        elif by == "watch":
            Watch(context).restore()
        else:
            reconcile(context)
        if seconds > SECONDS:
            assert not self._store().entries()
            assert not Path(self._store().path).exists()

    @invariant()
    def only_recorded_values_differ(self) -> None:
        held = [address for one in self._store().entries().values() for address in one.values]
        assert len(held) == len({*held})
        for address in self.addresses:
            if address in self.foreign:
                assert self._now(address) == self.foreign[address]
            elif address not in held:
                assert self._now(address) == self.before[address]
            if address not in held:
                self.before[address] = self.foreign.pop(address, self.before[address])


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=100, stateful_step_count=15, deadline=None)


@pytest.mark.parametrize(
    "name, part, text, found, new",
    [
        ("io.weight", "8:0", "default 100\n8:0 50\n", "50", "10"),
        ("io.weight", "8:16", "default 100\n8:0 50\n", "default", "10"),
        ("io.max", "8:0", "8:0 rbps=9 wbps=max riops=max wiops=max\n", "rbps=9 wbps=max riops=max wiops=max",
         "rbps=7 wbps=max riops=max wiops=max"),
        ("io.max", "8:0", "", "rbps=max wbps=max riops=max wiops=max", "rbps=7 wbps=max riops=max wiops=max"),
        ("cpu.max", "", "max 100000\n", "max 100000", "50000 100000"),
    ],
)  # fmt: skip
def test_value_of_a_cgroup_is_that_of_its_device(
    tmp_path: Path, host: Host, name: str, part: str, text: str, found: str | None, new: str | None
) -> None:
    (tmp_path / name).write_text(text)
    resctrl = host.context().monitor.resctrl
    address = Address(CGROUP, str(tmp_path), name, part)
    assert read(resctrl, address) == found
    assert read(resctrl, address._replace(place=f"{tmp_path}/gone")) is None
    if new is not None:
        assert write(resctrl, address, new) == new
        assert new in (tmp_path / name).read_text()


@pytest.mark.parametrize("one, other, same", [("00ff", "ff", True), ("30", "30", True), ("30", "300", False)])
def test_masks_are_compared_as_numbers(one: str, other: str, same: bool) -> None:
    assert is_same(Address(CLASS, "", "L3", "0"), one, other) is same


def test_owner_stopped_beyond_its_end_restores_late_values(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    address, now = cgroup(host)[0], [0.0]
    store = Store(host.context())
    monkeypatch.setattr(store_module, "boot_time", lambda: now[0])
    store.begin("one", "a test", "", "", SECONDS)

    def slow(*given: Any) -> str:
        now[0] += 2 * SECONDS
        return write(*given)

    monkeypatch.setattr(store_module, "write", slow)
    for message in ("stopped beyond its end", "."):  # at once, and later
        with pytest.raises(EndedError, match=message):
            store.change("one", {address: "10"})
        assert read(host.context().monitor.resctrl, address) == "100"


def test_many_ends_leave_the_lock_to_others_between_turns(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.state.mkdir(parents=True)
    store = Store(host.context())
    left: list[int] = []
    monkeypatch.setattr(store_module, "boot_time", lambda: 100.0)
    for name in "abc":
        store.begin(name, "a test", "", "", -SECONDS)

    def other(_: float) -> None:
        store.begin(f"other{len(left)}", "a test", "", "", SECONDS)  # needs the lock
        left.append(len(store.entries()))

    monkeypatch.setattr(store_module, "time", SimpleNamespace(sleep=other, monotonic=count(step=9).__next__))
    store.restore_over()
    assert (left, sorted(store.entries())) == ([3, 3], ["other0", "other1"])
