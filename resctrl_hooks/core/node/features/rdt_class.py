"""The RDT class of a container whose runtime assigned none: by annotation, or by the operator's default.

An agent or `resctrl-hook rdt apply` creates the classes. A class from the runtime stays.
"""

from ..classes.choice import class_name
from ..errors import HookError
from ..feature import INTO_CLASS, SKIP, Feature, Step
from ..host.procfs import groups_of_process
from ..permissions import meant_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..container.workload import Workload
    from ..context import Context
    from ..feature import Container
    from ..records import ClassNeeds
    from ..resctrl.locked_key import LockedKey

NAME = "rdt"
OURS = "class.rdt.resctrl-hooks.io"
# goresctrl's annotations, as containerd and CRI-O read them (goresctrl, pkg/rdt and pkg/kubernetes).
_BETA = "rdt.resources.beta.kubernetes.io"
_NRI = "rdtclass.resource-policy.nri.io"  # of the policies topology-aware and balloons
_CRI = "io.kubernetes.cri.rdt-class"
ROOT_NAMES = ("", "/", "system/default")


class RdtClassError(HookError):
    """The class does not exist, or is not allowed for this namespace."""

    reason = "rdt-class"


class RdtClass(Feature):
    """The RDT class of a container, chosen by annotation or by a default."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Join the chosen class, unless the runtime has assigned one already.

        Raises:
            RdtClassError: the class does not exist, or is not allowed for the namespace.
        """
        name, why = choose(workload, context)
        if not name:
            return [Step(NAME, SKIP, {}, why, _foreign(workload, context))]
        needs: "ClassNeeds" = {"class": name}
        return [Step(NAME, INTO_CLASS, needs, f"RDT class {name}, {why}")]

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Move every thread of the container into the class.

        Raises:
            RdtClassError: the class was removed under the container, or another program moves it back.
            ResctrlError: the kernel refuses.
        """
        needs: "ClassNeeds" = step.parameters
        name = needs["class"]
        resctrl = context.monitor.resctrl
        if not resctrl.fs.is_folder(resctrl.class_folder(name)):
            now = _where(context, container.pid) or "the root class"
            raise RdtClassError(
                f"RDT class {name} was removed; the container runs in {now}",
                hint="run `resctrl-hook rdt apply`, then `resctrl-hook reconcile`",
            )
        # The main thread comes last: `holds` looks at it alone, so that after a kill the step is applied again.
        resctrl.move_all(name, "", lambda: sorted(container.threads(context.proc), key=container.pid.__eq__))
        where = _where(context, container.pid)
        if where is not None and where != name:
            raise RdtClassError(
                f"process {container.pid} was moved to RDT class {name} but is in {where or 'the root class'}",
                hint="another program also manages RDT classes; keep only one",
            )

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether the container is in the class, or in one to which another program moved it, which stays."""
        where = _where(context, container.pid)
        if where is None:  # /proc does not have it: a simulation, or Linux before 5.9
            resctrl = context.monitor.resctrl
            return any(container.pid in resctrl.tasks(name, "") for name in resctrl.classes())
        return where != ""


def choose(workload: "Workload", context: "Context") -> "tuple[str, str]":
    """Return the chosen class for a workload ("" for none), and the reason.

    Raises:
        RdtClassError: as `plan`.
    """
    if workload.bundle.has_own_class and not workload.pid:
        return "", f"the runtime creates RDT class {workload.id}; left unchanged"
    if workload.bundle.class_name:
        return "", f"the runtime assigned RDT class {workload.bundle.class_name}; left unchanged"
    where = _foreign_class(workload, context)
    if where:
        return "", f"its process is already in RDT class {where}; left unchanged"
    name, why = class_name(workload, context.settings, NAME, _annotations(workload), RdtClassError, ROOT_NAMES)
    if not name:
        return "", why
    resctrl = context.monitor.resctrl
    if not resctrl.fs.is_folder(resctrl.class_folder(name)):
        from ..resctrl.absence import missing  # only if something is wrong

        if not resctrl.fs.is_folder(f"{resctrl.root}/info"):
            error = missing(resctrl.root, context.proc)
            if error.impossible and not workload.annotation(*_annotations(workload))[1]:
                return "", f"{error}; {why} is not applied"
            raise error
        allow = context.settings.rdt.get("allow")
        meant = meant_name(allow, workload.namespace, name, resctrl.classes())
        hint = "declare it in rdt.classes and run `resctrl-hook rdt apply`, or fix the reference to it"
        raise RdtClassError(
            f"unknown RDT class {name[:80]!r} for {why}", hint=f"{hint}; did you mean {meant!r}?" if meant else hint
        )
    return name, f"by {why}"


def _foreign(workload: "Workload", context: "Context") -> "list[str]":
    """Return a message about another program's class that stays, in a list; empty if no other class is set."""
    theirs = workload.bundle.class_name or _foreign_class(workload, context)
    if not theirs:
        return []
    try:
        ours, _ = class_name(workload, context.settings, NAME, _annotations(workload), RdtClassError, ROOT_NAMES)
    except RdtClassError:
        return []
    return [f"class is {theirs} instead of {ours}"] if ours not in ("", theirs) else []


def _foreign_class(workload: "Workload", context: "Context") -> str:
    """Return the class to which another program has moved a container's process; empty for none."""
    where = _where(context, workload.pid)
    if not where:
        return ""
    record = context.ledger.read_member(workload.key, workload.id) or {}
    ours = record.get("pid") == workload.pid and any(
        step["feature"] == NAME and step["needs"]["class"] == where for step in record.get("steps", [])
    )
    return "" if ours else where


def _where(context: "Context", pid: int) -> "str | None":
    """Return the class of a process, "" for the root class, None if unknown."""
    try:
        where = groups_of_process(context.proc, pid) if pid else None
    except ProcessLookupError:
        return None
    return where[0] if where else None


def _annotations(workload: "Workload") -> "list[str]":
    """Return the annotations that can request a class; the container's own come first."""
    own = workload.container
    names = [f"{OURS}/{own}", OURS] if own else [OURS]
    if workload.runtime != "cri-o":  # the runtime refuses these, or has applied them: then the bundle has the class
        names += [*([f"{_BETA}/container.{own}"] if own else []), f"{_BETA}/pod", _CRI]
    return names + workload.own_and_pods(_NRI)


FEATURE = RdtClass()
