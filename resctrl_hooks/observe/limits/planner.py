"""The plan of a limit: which values of a pod change to what, or why it is refused. Reads only."""

from collections.abc import Sequence
from errno import EACCES, EPERM
from typing import NamedTuple

from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, ResctrlError
from resctrl_hooks.core.node.host.cgroup import why_missing
from resctrl_hooks.observe.node.temporary.address import CGROUP, POD, Address, is_same
from resctrl_hooks.observe.node.temporary.file import REMEDIES
from resctrl_hooks.observe.node.temporary.store import Store

from .classes import ChosenClass, choose
from .model import Value
from .permission import refusal
from .request import LimitError, Request, lowered


class Plan(NamedTuple):
    """The values that a limit writes, and the RDT class that is created for it; None for none."""

    values: dict[Address, str]
    creates: ChosenClass | None = None


class Planned(NamedTuple):
    """A pod with its plan, and its values before and after."""

    pod: Pod
    plan: Plan
    shown: list[Value]

    @property
    def note(self) -> str:
        """What is to be known of it; empty: nothing."""
        number = len({one.of for one in self.shown if one.kind == CGROUP})
        if number <= 1:
            return ""
        return f"{number} containers get an equal part each, and later ones none: the pod has no cgroup of its own"


def folders_of(pod: Pod) -> list[str]:
    """Return the folder of a pod's cgroup, or those of its containers if it has none of its own."""
    return [pod.cgroup] if pod.cgroup else list(dict.fromkeys(one.cgroup for one in pod.living if one.cgroup))


class Planner:
    """The decisions on limits of a node.

    Args:
        context: the node.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = Store(context)

    def plan_all(self, pods: Sequence[Pod], request: Request) -> list[Planned]:
        """Return the plans of pods, after all of them were checked.

        Raises:
            LimitError: one may not be limited so.
        """
        found, refused = self._plans([(pods, request)])
        if refused:
            raise LimitError("\n".join([*refused_lines(refused), *(["no pod was limited"] if len(pods) > 1 else [])]))
        return found

    def why_not(self, calls: Sequence[tuple[Sequence[Pod], Request]]) -> str:
        """Return why one of some calls of `limit`, one after the other, is refused; empty if none is."""
        _, refused = self._plans(calls)
        return "; ".join(
            f"{pod.name}: {_of(pod, error)}" for pod, error in refused[:1] if error.errno not in (EACCES, EPERM)
        )

    def _plans(
        self, calls: Sequence[tuple[Sequence[Pod], Request]]
    ) -> tuple[list[Planned], list[tuple[Pod, HookError]]]:
        found: list[Planned] = []
        refused: list[tuple[Pod, HookError]] = []
        for pods, request in calls:
            for pod in pods:
                created = [one.plan.creates for one in found if one.plan.creates is not None]
                try:
                    plan = self.plan(pod, request, created)
                    found.append(Planned(pod, plan, self._shown(plan)))
                except HookError as error:
                    refused.append((pod, error))
        return found, refused

    def plan(self, pod: Pod, request: Request, created: Sequence[ChosenClass] = ()) -> Plan:
        """Return the values that a limit of a pod would write. Read-only.

        Args:
            pod: the pod.
            request: its limit.
            created: the classes that earlier plans create.

        Raises:
            LimitError: the operator does not permit it, or there is no such class, value or disk.
            TemporaryError: another limit or an experiment has changed a value.
            HookError: a value cannot be read.
        """
        request = request.on_disks(self._context.settings.sys_path)
        if why := refusal(self._context.settings, pod.name, pod.classes):
            raise LimitError(why)
        if request.sets_class:
            self._store.check_free(Address(POD, pod.key, "class"))
        chosen = choose(self._context, pod, request, created)
        values: dict[Address, str] = {} if chosen is None else {Address(POD, pod.key, "class"): chosen.name}
        wanted = {**values, **(self._of_cgroups(pod, request) if request.sets_cgroup else {})}
        same: dict[str, str] = {}
        for address, value in wanted.items():
            self._store.check_free(address)
            now = self._store.read(address)
            if now is None:
                if address.kind == POD:
                    raise LimitError("no container of it is running", hint="`resctrl-hook list` shows all")
                raise why_missing(address.place, address.name)
            least = value if address.kind == POD else lowered(address.name, now, value)
            if is_same(address, now, least):
                same[address.name] = now
            else:
                values[address] = least
        kept = [f"{name} is {now} already" for name, now in same.items() if name not in {one.name for one in values}]
        if kept:
            raise LimitError(f"{', '.join(kept)}: a limit only lowers values")
        return Plan(values, chosen if chosen is not None and chosen.lines else None)

    def _of_cgroups(self, pod: Pod, request: Request) -> dict[Address, str]:
        folders = folders_of(pod)
        if not folders:
            raise LimitError("it has no cgroup of its own", hint="its containers may have ended")
        part = request.divided(len(folders))
        return {address: value for folder in folders for address, value in part.of_cgroup(folder).items()}

    def _shown(self, plan: Plan) -> list[Value]:
        return [Value.of_address(one, self._store.read(one) or "", new) for one, new in plan.values.items()]


def refused_lines(refused: Sequence[tuple[Pod, HookError]]) -> list[str]:
    """Return why pods cannot be limited, with what to do: a line for each reason."""
    names: dict[str, list[str]] = {}
    for pod, error in refused:
        names.setdefault(_of(pod, error), []).append(pod.name)
    return [f"cannot limit {', '.join(pods)}: {why}" for why, pods in names.items()]


def _of(pod: Pod, error: HookError) -> str:
    remedy = "" if error.hint or isinstance(error, ResctrlError) else REMEDIES.get(error.errno, "")
    return str(error).replace(f"pod {pod.key}", "the pod") + (f"; {remedy}" if remedy else "")
