"""Limits at a time of the history."""

from pathlib import Path
from tempfile import TemporaryDirectory

from conftest import examples
from hosts.past import BOOT, T0, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.rows import LIMIT, UNLIMIT
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.temporary.address import CGROUP, Address
from resctrl_hooks.observe.node.temporary.limits import ActiveLimit, LimitedValue
from resctrl_hooks.observe.past.limits import PastLimits

PODS = ("a", "b")
NAMES = ("cpu.weight",), ("io.max", "8:0")
STEP = st.tuples(st.sampled_from([LIMIT, UNLIMIT]), st.sampled_from(PODS), st.integers(1, 40), st.booleans())
STEPS = st.lists(STEP, max_size=12)


def limit(pod: str, weight: int, ends: float | None) -> ActiveLimit:
    values = [LimitedValue(Address(CGROUP, "/pod", *name), "100", str(weight)) for name in NAMES]
    return ActiveLimit(pod, "`limit` of root", f"incident ({weight}) of {pod}", ends, tuple(values))


@settings(max_examples=examples(10))
@given(STEPS, st.data())
def test_limits_of_a_sample_are_the_active_ones(steps: list[tuple[str, str, int, bool]], data: st.DataObject) -> None:
    """Each sample begins or ends a limit, with an end of its own or that of the pod."""
    expected: list[dict[tuple[str, int], ActiveLimit]] = []
    active: dict[tuple[str, int], ActiveLimit] = {}
    with TemporaryDirectory(dir="/dev/shm") as folder:
        file = str(Path(folder, "history.sqlite"))
        claim(file)
        store = Store(file, write=True)
        for second, (kind, pod, length, has_end) in enumerate(steps):
            made = sample(second, {pod: 1.0})
            known = active.pop((pod, length % 3), None) if kind == UNLIMIT else None
            one = known or limit(pod, length % 3, T0 / 1000 + second + length if has_end else None)
            if kind == LIMIT:
                active[pod, length % 3] = one
            made.rows = [*made.rows, {"kind": kind, "key": pod, "domain": "", "event": one.text}]
            store.add(made)
            expected.append({**active})
        limits = PastLimits(store)
        for at in data.draw(st.permutations(range(len(steps)))):
            entry = store.at(T0 + at * 1000)
            assert entry is not None
            shown = [(pod, one) for pod, of in limits.at(entry, BOOT).items() for one in of]
            there = [one for one in expected[at].values() if one.ends is None or one.ends > T0 / 1000 + at]
            assert sorted((pod, one.values, one.reason, one.ends or 0) for pod, one in shown) == sorted(
                (one.key, [value.text for value in one.values], one.reason, one.ends or 0) for one in there
            )
        store.close()
