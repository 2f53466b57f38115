"""The pods of a stored sample, for `list`, `show` and `diagnose`."""

from pydantic import Field

from resctrl_hooks.core.inventory.base import Record, group_name
from resctrl_hooks.core.inventory.counters import Counter
from resctrl_hooks.core.inventory.coverage import counter_of
from resctrl_hooks.core.inventory.foreign import reading_of
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.container.names import short_id
from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE, Reading
from resctrl_hooks.observe.inventory.pod_rates import PodRates
from resctrl_hooks.observe.inventory.rates import Line, of_foreign, pod_rates, reported
from resctrl_hooks.observe.node.history.rows import POD, SLOWED, Row
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot

from .moments import PastUsers, counted_seconds, pair_of
from .view import Found

ABSENT = "states, containers, tasks, RMIDs and errors are not stored"
"""The values that the history lacks."""


class PastPod(Record):
    """A pod as it was, or a foreign group, which has no key, with all that is stored of it. Null: unknown."""

    name: str
    namespace: str
    pod: str
    key: str
    rdt_class: str | None = Field(description="Its RDT class; empty for the root class, null for several.")
    slowdown: float | None = Field(description="How many times as long its work took as in quiet times.")
    causes: list[str] = Field(description="Causes of a slowdown that had evidence.")
    culprits: list[str] = Field(description="Pods with a part in these causes.")
    counters: list[Counter]
    rates: PodRates | None = Field(description="Between this sample and the one before; null after a gap.")

    @property
    def known(self) -> int:
        """The number of counters with a value."""
        return sum(one.value is not None for one in self.counters)

    @property
    def names(self) -> set[str]:
        """Its names in commands."""
        return names_in_past(self.key, self.name, self.pod)


def names_in_past(key: str, name: str, pod: str) -> set[str]:
    """Return the names of a pod, or of a foreign group, which has no key: in the form of `list` and its own."""
    return {key, name, pod} - {""} if key else {name, name.rpartition("/")[2]}


def pods_at(found: Found, names: PodNames) -> list[PastPod]:
    """Return the pods and the foreign groups of a sample, by name.

    Args:
        found: the sample, and the one before it.
        names: the names of now, for pods whose names the sample does not have.
    """
    before, now = pair_of(found.before, found.sample)
    users = PastUsers(found.sample, names)
    users.learn(now.pods)
    lines = {key: users.line(key, Line(), readings) for key, readings in now.pods.items()}
    judged = {str(row["key"]): row for row in found.sample.rows if row["kind"] == SLOWED}
    rows = {(str(row["key"]), str(row["domain"])): row for row in found.sample.rows if row["kind"] == POD}
    pods = []
    for key, readings in now.pods.items():
        line, row = lines[key], judged.get(key, {})
        pods.append(
            PastPod(
                name=line.name,
                namespace=line.namespace,
                pod=line.pod,
                key=key,
                rdt_class=line.rdt_class,
                slowdown=line.slowdown,
                causes=str(row.get("event") or "").replace(",", "").split(),
                culprits=[
                    lines[one].name if one in lines else short_id(one) for one in str(row.get("culprits") or "").split()
                ],
                counters=[_counter(one, rows[key, one.domain.folder], line.rdt_class) for one in readings],
                rates=pod_rates(before, now, key) if found.before else None,
            )
        )
    pods += [_of_foreign(found, before, now, *group) for group in now.foreign]
    return sorted(pods, key=lambda one: one.name)


def _of_foreign(found: Found, before: Snapshot, now: Snapshot, rdt_class: str, name: str) -> PastPod:
    rates = reported(of_foreign(before, now, rdt_class, name), before, now) if found.before else None
    shown = group_name(rdt_class, name)
    return PastPod(
        name=shown,
        namespace="",
        pod=shown,
        key="",
        rdt_class=rdt_class,
        slowdown=None,
        causes=[],
        culprits=[],
        counters=[
            counter_of(reading_of(now.slots[path], value, rdt_class))
            for path, value in now.foreign[rdt_class, name].values.items()
            if value is not None
        ],
        rates=rates,
    )


def _counter(reading: Reading, row: Row, rdt_class: str | None) -> Counter:
    """Return a stored counter. A reading's seconds, which are for rates, begin with the recording, not with a total."""
    seconds = counted_seconds(row, reading.counter.name) if reading.kind == CUMULATIVE else None
    return counter_of(reading).model_copy(update={"rdt_class": rdt_class, "seconds": seconds})
