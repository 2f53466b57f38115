"""The plan of a limit: which values of a pod change to what, or why it is refused. Reads only."""

from collections.abc import Sequence
from errno import EACCES, ENOSPC, EPERM, EROFS
from typing import NamedTuple

from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, ResctrlError
from resctrl_hooks.observe.node.temporary.address import POD, Address, is_same
from resctrl_hooks.observe.node.temporary.store import Store

from .classes import ChosenClass, choose
from .model import Value
from .permission import refusal
from .request import LimitError, Request, lowered

_REMEDIES = {
    ENOSPC: "; free space on its file system",
    EROFS: "; it is read-only here: run the command on the host, outside of a container",
}


class Plan(NamedTuple):
    """The values that a limit writes, and the RDT class that is created for it; None for none."""

    values: dict[Address, str]
    creates: ChosenClass | None = None


class Planned(NamedTuple):
    """A pod with its plan, and its values before and after."""

    pod: Pod
    plan: Plan
    shown: list[Value]


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
            LimitError: one may not be limited so, or there is no such disk.
        """
        found, refused = self._plans([(pods, request)])
        if refused:
            lines = [refused_text(pod, error) for pod, error in refused]
            raise LimitError("\n".join([*lines, *(["no pod was limited"] if len(pods) > 1 else [])]))
        return found

    def why_not(self, calls: Sequence[tuple[Sequence[Pod], Request]]) -> str:
        """Return why one of some calls of `limit`, one after the other, is refused; empty if none is."""
        try:
            _, refused = self._plans(calls)
        except LimitError as error:
            return str(error)
        return "; ".join(
            f"{pod.name}: {_of(pod, error)}" for pod, error in refused[:1] if error.errno not in (EACCES, EPERM)
        )

    def _plans(
        self, calls: Sequence[tuple[Sequence[Pod], Request]]
    ) -> tuple[list[Planned], list[tuple[Pod, HookError]]]:
        found: list[Planned] = []
        refused: list[tuple[Pod, HookError]] = []
        for pods, request in calls:
            on_disks = request.on_disks(self._context.settings.sys_path)
            for pod in pods:
                created = [one.plan.creates for one in found if one.plan.creates is not None]
                try:
                    plan = self.plan(pod, on_disks, created)
                    found.append(Planned(pod, plan, self._shown(plan)))
                except HookError as error:
                    refused.append((pod, error))
        return found, refused

    def plan(self, pod: Pod, request: Request, created: Sequence[ChosenClass] = ()) -> Plan:
        """Return the values that a limit of a pod would write. Read-only.

        Args:
            pod: the pod.
            request: its limit, with the numbers of disks (`Request.on_disks`).
            created: the classes that earlier plans create.

        Raises:
            LimitError: the operator does not permit it, or a value does not exist.
            TemporaryError: another limit or an experiment has changed a value.
            HookError: a value cannot be read.
        """
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
                    raise LimitError("no container of it is running")
                controller = address.name.partition(".")[0]
                raise LimitError(
                    f"there is no {address}",
                    hint=f"write +{controller} to cgroup.subtree_control of each parent directory",
                )
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
        folders = [pod.cgroup] if pod.cgroup else [one.cgroup for one in pod.living if one.cgroup]
        if not folders:
            raise LimitError("it has no cgroup of its own", hint="its containers may have ended")
        return {address: value for folder in folders for address, value in request.of_cgroup(folder).items()}

    def _shown(self, plan: Plan) -> list[Value]:
        return [Value.of_address(one, self._store.read(one) or "", new) for one, new in plan.values.items()]


def refused_text(pod: Pod, error: HookError) -> str:
    """Return why a pod cannot be limited, with what to do."""
    return f"cannot limit {pod.name}: {_of(pod, error)}"


def _of(pod: Pod, error: HookError) -> str:
    remedy = _REMEDIES.get(error.errno, "") if not isinstance(error, ResctrlError) else ""
    return f"{str(error).replace(f'pod {pod.key}', 'the pod')}{remedy}"
