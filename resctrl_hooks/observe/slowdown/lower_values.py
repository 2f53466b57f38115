"""The options of `limit` that lower bandwidth or cache of pods on this node, from the present values of their class."""

from functools import cached_property

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.resctrl.bandwidth_unit import AMD, AMD_UNIT, PER_CENT
from resctrl_hooks.core.node.resctrl.layouts import L3
from resctrl_hooks.core.rdt.capabilities import Capabilities, Schemata, read_abilities, read_schemata
from resctrl_hooks.core.rdt.held import held_values
from resctrl_hooks.observe.node.guard.section import class_name
from resctrl_hooks.observe.node.guard.section import section as guard_section
from resctrl_hooks.observe.node.slowdown.causes.remedy import MB
from resctrl_hooks.observe.node.temporary.classes import PREFIX

_FEWER_WAYS = 8
"""The part of its cache ways that a class keeps is one in so many."""
_MEGA = 1_000_000


class LowerValues:
    """Lower values of RDT classes, read when they are first needed."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def options(self, sets: str, rdt_class: str, victims: str, wanted: str) -> tuple[str, ...]:
        """Return options that each limit pods of a class, the best first; none without a lower value.

        Args:
            sets: MB or L3.
            rdt_class: the class of the pods; empty for the root class.
            victims: the class of the pod that is to be helped.
            wanted: for MB, the part of its traffic that stays, and bytes per second in a domain.
        """
        try:
            now = read_schemata(self._context.monitor.resctrl.root, rdt_class)
            if sets != MB:
                value = self._fewer_ways(now)
                return (f"--l3 {value}",) if value else ()
            least = self._less_bandwidth(now, wanted)
            if not least:
                return ()
            slower = self._slower_class(least, {rdt_class, victims})
            return (f"--mb {self._written(least)}", *([f"--class {slower}"] if slower else ()))
        except HookError:
            return ()  # `diagnose` has reported it, or the class is gone

    @cached_property
    def _can(self) -> Capabilities:
        resctrl = self._context.monitor.resctrl
        return read_abilities(resctrl.root, resctrl.proc)

    def _less_bandwidth(self, now: Schemata, wanted: str) -> int:
        """Return a lower value in the unit of the mount; 0: there is none."""
        values, can = [int(value) for value in now.get("MB", {}).values()], self._can.bandwidths.get("MB")
        if not values or can is None or not wanted:
            return 0
        part, rate = map(float, wanted.split())
        if can.unit == PER_CENT:
            value = max(can.least, int(max(values) * part) // can.step * can.step)
        else:
            value = max(can.least, 1, int(rate / (AMD_UNIT if can.unit == AMD else _MEGA)))
        return value if value < max(values) else 0

    def _written(self, value: int) -> str:
        """Return a value of `--mb` as a person writes it."""
        unit = self._can.bandwidths["MB"].unit
        if unit == PER_CENT:
            return str(value)
        return f"{value * AMD_UNIT // _MEGA if unit == AMD else value}MBps"

    def _slower_class(self, most: int, others: set[str]) -> str:
        """Return the declared class with the most bandwidth up to a value; empty: there is none."""
        resctrl = self._context.monitor.resctrl
        found = {}
        kept = set(map(class_name, guard_section(self._context.settings)["protect"]))
        held = held_values(self._context).declared  # their values are not those that they will have
        for name in set(resctrl.classes()) - others - kept - held.keys():
            values = [int(value) for value in read_schemata(resctrl.root, name).get("MB", {}).values()]
            if values and max(values) <= most and not name.startswith(PREFIX):
                found[name] = max(values)
        return max(sorted(found), key=found.__getitem__, default="")

    def _fewer_ways(self, now: Schemata) -> str:
        """Return the lowest ways of a class, a part of them; empty: it has too few, or not the same in all domains."""
        can, masks = self._can.caches.get(L3), {int(mask, 16) for mask in now.get(L3, {}).values()}
        if can is None or len(masks) != 1:
            return ""
        mask = masks.pop()
        count = max(can.min_bits, mask.bit_count() // _FEWER_WAYS, 1)
        if count >= mask.bit_count():
            return ""
        if mask == can.full:
            return f"{100 * count // can.full.bit_length()}%"
        lowest = mask & -mask
        return f"{(lowest << count) - lowest:x}"
