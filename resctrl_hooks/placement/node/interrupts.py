"""Interrupts, kept off the exclusive CPUs of containers that ask for it and off the CPUs of pools with ``irqMode``.

Source of the files: Linux, Documentation/core-api/irq/irq-affinity.rst. Interrupts that their driver manages cannot
move (EIO, on Linux 7.2 EPERM; kernel/irq/proc.c, write_irq_affinity).
"""

from ...core.node.host.cpulist import format_list, format_mask, parse_list, parse_mask, union
from ...core.node.host.files import is_folder, list_folder
from . import irqbalance
from .node_values import NodeValues
from .pool_sets import used_by_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.context import Context
    from .node_values import NodeValueRecord, Values
    from .usage import Usage

_DEFAULT, _LIST, _BALANCER = "default_smp_affinity", "smp_affinity_list", "irqbalance"
_MANAGED = ("EIO", "EPERM")
_SHOWN = 5


def quiet_cpus(usage: "Usage", options: "dict[str, Any]") -> int:
    """Return the CPUs without interrupts; none if no other CPU would be left for them.

    ``options`` is the ``placement`` section.

    Raises:
        PlacementError: a pool is invalid.
    """
    found = union(cpus for mode, cpus in used_by_key("irqMode", usage, options) if mode == "isolate")
    found |= union(grant.decision.quiet for grant in usage.grants)
    found |= usage.beside(found)  # an interrupt on a core's other thread slows the exclusive one
    found &= usage.online
    return found if usage.online & ~found else 0


class Interrupts(NodeValues):
    """The files of ``/proc/irq``, and irqbalance's banned CPUs under the name ``irqbalance``."""

    title = "interrupts"
    record = "placement.irqs"

    def __init__(self, context: "Context") -> None:
        super().__init__(f"{context.proc}/irq", context)
        self._balancers: str = context.settings.sections["placement"]["irqbalancePath"]

    def facts(self, usage: "Usage") -> str:
        """Return the CPUs without interrupts."""
        return format_list(quiet_cpus(usage, self.context.settings.sections["placement"]))

    def wanted(self, usage: "Usage", values: "Values") -> "dict[str, str]":
        """Return the affinities without those CPUs, of interrupts that have some of them.

        An interrupt that has no other online CPU gets all of them: its device must work.
        """
        quiet = quiet_cpus(usage, self.context.settings.sections["placement"])
        if not quiet:
            return {}
        rest = usage.online & ~quiet
        found: "dict[str, str]" = {}
        numbers = sorted((name for name in list_folder(self.base) if name.isdecimal()), key=int)
        for key in [_DEFAULT, *(f"{number}/{_LIST}" for number in numbers), _BALANCER]:
            cpus = self._before(key, values)
            if cpus is None:
                continue
            if key == _BALANCER:
                if quiet & ~cpus:
                    found[key] = format_list(cpus | quiet)
            elif cpus & quiet and (key in values or self._has_handler(key)):
                left = cpus & ~quiet
                found[key] = (format_mask if key == _DEFAULT else format_list)(left if left & usage.online else rest)
        return found

    def _before(self, key: str, values: "Values") -> "int | None":
        """Return the CPUs of an interrupt before the change; None if they are unknown."""
        current = irqbalance.banned(self._balancers) if key == _BALANCER else self.current(key)
        if key in values and (current or key != _BALANCER):  # a stopped irqbalance has forgotten its CPUs
            self.learn(key, values[key], current)
            current = values[key]["found"]
        elif key == _BALANCER and current == irqbalance.UNKNOWN:
            return None  # nothing is changed without a value to restore
        try:
            return (parse_mask if key == _DEFAULT else parse_list)(current) if current else None
        except ValueError:
            return 0 if key == _BALANCER else None  # its word for no CPU

    def _has_handler(self, key: str) -> bool:
        return key == _DEFAULT or bool(_handlers(f"{self.base}/{key.partition('/')[0]}"))

    def current(self, key: str) -> str:
        """Return the present affinity, or irqbalance's banned CPUs; empty if unknown."""
        if key != _BALANCER:
            return super().current(key)
        found = irqbalance.banned(self._balancers)
        return "" if found == irqbalance.UNKNOWN else found

    def write(self, key: str, value: str) -> str:
        """Write an affinity, or send it to irqbalance; return the error's name if that fails."""
        return irqbalance.ban(self._balancers, value) if key == _BALANCER else super().write(key, value)

    def written(self, key: str, value: str) -> str:
        """Return the value after a write; irqbalance answers with the former one until its next pass."""
        return value if key == _BALANCER else super().written(key, value)

    def learn(self, key: str, value: "NodeValueRecord", current: str) -> None:
        """Keep another program's affinity; irqbalance's answer may be one of this program's former values."""
        if key != _BALANCER:
            super().learn(key, value, current)

    def is_restored(self, key: str, value: "NodeValueRecord", current: str) -> bool:
        """Return whether the affinity is the previous one; irqbalance may not have read the last command yet."""
        return not value["found"] if key == _BALANCER else super().is_restored(key, value, current)

    def exists(self, key: str) -> bool:
        """Return whether the interrupt exists, or irqbalance may run."""
        return bool(irqbalance.banned(self._balancers)) if key == _BALANCER else super().exists(key)

    def problem(self, key: str, value: "NodeValueRecord") -> "tuple[str, ...]":
        """Return the interrupt and the error: which CPUs are exclusive does not matter."""
        return key, value["refused"]

    def sentences(self, values: "Values") -> "list[str]":
        """Return a sentence for each error, with the number and the names of its interrupts."""
        found: "dict[str, list[str]]" = {}
        sentences = []
        for key, value in values.items():
            if not value["refused"]:
                continue
            if key == _BALANCER:
                sentences.append(f"cannot set the banned CPUs of irqbalance to {value['wanted']} ({value['refused']})")
            else:
                found.setdefault(value["refused"], []).append(self._named(key))
        for why, names in found.items():
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            one = len(names) == 1
            cause = ", managed by the kernel" if why in _MANAGED else ""
            what = "interrupt" if one else "interrupts"
            sentences.append(f"cannot move {len(names)} {what} ({why}{cause}): {', '.join(names[:_SHOWN])}{more}")
        return sentences

    def _named(self, key: str) -> str:
        number = key.partition("/")[0]
        return " ".join([number, *_handlers(f"{self.base}/{number}")])


def _handlers(folder: str) -> "list[str]":
    """Return the names of an interrupt's handlers; none for an interrupt that no driver uses."""
    return sorted(name[:64] for name in list_folder(folder) if is_folder(f"{folder}/{name}"))
