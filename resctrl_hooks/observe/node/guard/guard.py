"""The resident guard: in each interval it samples all domains, asks the law, and writes ``schemata``.

It never changes the root class, a protected or an unnamed class, or a value that another program wrote.
"""

import errno

from ....core.node.errors import LeaseError, NotMountedError, ResctrlError
from ....core.node.log import NOTICE, WARNING
from ....core.node.resctrl.layouts import L3
from ..capacity.capacity import capacities_of_bandwidth
from ..capacity.domains import domains_of_bandwidth
from .actuator import Mount, classes_beside
from .changes import change as write_change
from .changes import restore
from .law import REPORT, Change, Domain, Rules
from .lease import GUARD, Lease
from .limit import Limit
from .limits import RESOURCE, held_limits, read_limits
from .load import ClassCounts, Reader, Traffic, rates_between, traffic
from .pods import Pods
from .sample import Sample
from .section import ACT, OBSERVE, class_name, section, slowdown_of
from .status import Status, event_of, event_text
from .sufferers import Sufferers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....core.node.context import Context
    from ....core.node.host.topology import Topology

STAGE = "guard"
_LEASE, _INTERVALS = 60.0, 3  # the lease's seconds: at least so many, and so many intervals
_WEIGHT = 0.2  # of one sample in the mean traffic of a class in an L3 domain


class Guard:
    """One node's guard. ``act`` writes, otherwise it only logs the intended changes.

    Raises:
        ResctrlError: resctrl is not mounted.
    """

    def __init__(self, context: "Context", topology: "Topology | None", pid: int, now: float) -> None:
        settings = section(context.settings)
        self._context = context
        self._resctrl = context.monitor.resctrl
        self._topology = topology
        self._throttle: "dict[str, Any]" = settings["throttle"]
        self._protect = [class_name(name) for name in settings["protect"]]
        least = slowdown_of(settings)
        at_load = [name for name in self._protect if name not in least]
        self._rules = Rules(
            at_load,
            [*self._throttle],
            settings["high"],
            settings["low"],
            at_slowdown=bool(least),
            beside=self._beside,
        )
        self._sufferers = Sufferers(context, least)
        if least and context.settings.sections["slowdown"].get("enabled") is False:  # `auto` is on beside a guard
            self._log(
                WARNING,
                "guard: rdt.guard.protect has a slowdown, but slowdown.enabled is off; the guard does not act",
            )
        self._mount = Mount(self._resctrl)
        self.mode: str = settings["mode"]
        self._lease = Lease(context.settings.state_dir, context.proc)
        self._lease.hold(pid, GUARD, max(_LEASE, _INTERVALS * settings["interval"]))
        self._status = Status(
            context.settings.state_dir, pid, self._lease.started, self.mode, self._mount.unit, context.log
        )
        why = self._mount.observe_only
        bandwidth = self._mount.bandwidth
        self._capacities = capacities_of_bandwidth(context, bandwidth)
        if not why and topology is None and bandwidth.resource == L3 and len(bandwidth.numbers) > 1:
            why = "the topology is unreadable, so which L3 domains share a memory is unknown"
        if self.mode == ACT and why:
            self._log(WARNING, f"guard only observes: {why}")
            self.mode, self._status.values["why"] = OBSERVE, why
        self._status.values["mode"] = self.mode
        self._pods = Pods(context, bandwidth)
        self._numbers = domains_of_bandwidth(bandwidth, topology, context.settings.monitoring["memoryDomains"])
        self._domains = [Domain(self._limits_of(numbers), now) for numbers in self._numbers]
        self._reader = Reader(self._resctrl, bandwidth)
        self._before: "ClassCounts | None" = None
        self._read_error = ""  # why the last read failed
        self._use: "dict[str, dict[int, float]]" = {}
        missing = [str(numbers[0]) for numbers in self._numbers if not self._capacities.reliable(numbers[0])]
        if missing:
            text = "the firmware has none, and monitoring.capacity is not set; its load stays unknown"
            self._log(WARNING, f"no capacity for memory domain {', '.join(missing)}: {text}")

    def _limits_of(self, numbers: "tuple[int, ...]") -> "dict[str, Limit]":
        """Return the current limits of the limitable classes in a memory domain."""
        found = {}
        for name, rule in self._throttle.items():
            floor = self._mount.floor_of((rule or {}).get("floor", 0), self._capacities.reliable(numbers[0]))
            limit = self._mount.limit(name, numbers, read_limits(self._resctrl, name), floor)
            if limit is None and self._mount.maps:
                self._log(WARNING, f"RDT class {name} has no {RESOURCE} value on this node: it is not throttled")
            elif limit is not None:
                found[name] = limit
        return found

    def sample(self, now: float) -> None:
        """Sample all domains once, and apply the law's changes.

        Raises:
            LeaseEndedError: this process was stopped or hung, and the values are restored.
            LeaseError: the lease cannot be extended.
        """
        self._lease.extend()
        after = self._read(now)
        before = self._before
        if after.counts:
            self._before = after
        if before is None:
            return
        self._capacities.look(self._context.settings.state_dir)
        for name in self._throttle:
            self._use[name] = _mean(self._use.get(name, {}), _use(name, before, after))
        for domain, found in zip(self._domains, traffic(before, after, self._numbers)):
            carries = self._capacities.reliable(found.domain[0])
            load = found.load(carries)
            ratios = self._sufferers.ratios(found.domain[0], domain.changed, now)
            suffering = self._sufferers.suffering(ratios)
            sample = Sample(now, load, carries, found.rates, [name or "/" for name in suffering], ratios)
            old = dict(domain.limits)
            changes = domain.decide(sample, _present(self._rules, domain), self._mount.scale)
            for change in changes:
                self._do(domain, found, change, old, before, after)
            of = self._capacities.of(found.domain[0]) if carries else None
            self._status.saw(domain, found, load, after.time - before.time, of.source if of else None)
            if suffering or (load is not None and load >= self._rules.high):
                self._pods.sample(found.domain, [*domain.limits])
        self._status.write()

    def _read(self, now: float) -> ClassCounts:
        """Return all classes' counters; a read without any if the groups cannot be listed, so the load is unknown.

        Raises:
            NotMountedError: resctrl is gone.
        """
        try:
            found = self._reader.read(["", *self._resctrl.classes()], now)
            self._read_error = ""
        except NotMountedError:
            raise
        except (OSError, ResctrlError) as error:
            if str(error) != self._read_error:
                self._log(WARNING, f"guard: load of the memory domains unknown, no value changed: {error}")
            self._read_error = str(error)
            return ClassCounts(now, {})
        return found

    def _do(
        self,
        domain: Domain,
        found: Traffic,
        change: Change,
        old: "dict[str, Limit]",
        before: ClassCounts,
        after: ClassCounts,
    ) -> None:
        number = found.domain[0]
        if change.kind != REPORT and self.mode == ACT:
            limit = old[change.name]
            try:
                problem = self._write(domain, found, change, limit, before, after)
            except (LeaseError, ResctrlError) as error:  # it tries again
                domain.limits[change.name] = limit
                self._log(WARNING, f"guard: {error}; class {change.name} is unchanged")
                return
            if problem:
                # The value that stands is not the law's, so the law must not build on it.
                domain.limits[change.name] = Limit(limit.declared, limit.floor, limit.now, overridden=True)
                self._log(WARNING, f"guard: {problem}; the guard does not change class {change.name} until it restarts")
                return
        event = event_of(number, change)
        pods = self._pods.largest(number, change.name)
        by = f"; largest pods: {', '.join(pods)}" if pods else ""
        is_report = change.kind == REPORT
        self._log(
            WARNING if is_report and self.mode == ACT else NOTICE,
            f"guard{':' if is_report else ''} {event_text(event, self.mode, self._mount.unit)}{by}",
            domain=number,
        )
        self._status.did(event)

    def _beside(self, name: str) -> "list[str]":
        """Return the protected classes that a limit of a class may also slow down, so its effect must be measured."""
        if self.mode != ACT or self._mount.throttle_mode != "max":
            return []
        return classes_beside(self._resctrl, name, self._protect, self._topology)

    def _write(
        self, domain: Domain, found: Traffic, change: Change, limit: Limit, before: ClassCounts, after: ClassCounts
    ) -> str:
        """Write a class's values in a memory domain; return why nothing was written, or an empty string.

        The values that the kernel made of them stand in the lease and in the domain's limits.

        Raises:
            ResctrlError: the values cannot be read or written now.
        """
        name, numbers = change.name, found.domain
        now = held_limits(self._resctrl, name)
        if any(number not in now for number in numbers):
            return f"RDT class {name} has no {RESOURCE} value any more"
        held = self._lease.ours.get(name, {})
        # A write that failed has left the value before it, which the lease names, too.
        if any(number in held and now[number] not in held[number] for number in numbers):
            return f"another program changed {RESOURCE} of class {name} to {now}"
        declared = {number: self._lease.declared.get(name, {}).get(number, now[number]) for number in numbers}
        if not held and self._mount.sum(declared.values()) != limit.declared:
            return f"another program changed {RESOURCE} of class {name} to {now}"
        use = self._use.get(name, {})
        new = self._mount.values(change.new, numbers, use, declared, limit.floor)
        try:
            effective = write_change(self._resctrl, self._lease, name, {number: now[number] for number in numbers}, new)
        except ResctrlError as error:
            if error.errno == errno.EINVAL:
                return str(error)
            raise
        if effective != new:
            domain.limits[name] = domain.limits[name].at(self._mount.sum(effective.values()))
        return ""

    def end(self) -> bool:
        """Restore every declared value; return whether that succeeded. A lease of the rest stays."""
        failed = restore(self._resctrl, self._lease).failed
        for line in failed:
            self._log(WARNING, f"guard: cannot restore {line}")
        return not failed

    def _log(self, priority: int, text: str, **fields: "str | int") -> None:
        self._context.log(priority, text, stage=STAGE, **fields)


def _present(rules: Rules, domain: Domain) -> Rules:
    """Return the rules without classes that have no limit in this domain."""
    there = [name for name in rules.throttle if name in domain.limits]
    return Rules(rules.protect, there, rules.high, rules.low, at_slowdown=rules.at_slowdown, beside=rules.beside)


def _mean(old: "dict[int, float]", new: "dict[int, float]") -> "dict[int, float]":
    """Return the running mean of a class's traffic by L3 domain: one sample does not decide how a limit is divided."""
    return {number: old.get(number, value) * (1 - _WEIGHT) + value * _WEIGHT for number, value in new.items()} or old


def _use(name: str, before: ClassCounts, after: ClassCounts) -> "dict[int, float]":
    """Return a class's traffic in each L3 domain between two samples, in bytes per second."""
    rates = rates_between(before.counts.get(name, {}), after.counts.get(name, {}), after.time - before.time)
    return {number: pair[0] if pair else 0.0 for number, pair in rates.items()}
