"""The RDT class of a container whose runtime assigned none: by annotation, or by a default of the operator's.

The class's folder is somebody else's: an agent's, or `resctrl-hook rdt apply`'s. What the runtime assigned stays.
"""

from ..classes.choice import class_name
from ..errors import HookError
from ..feature import INTO_CLASS, SKIP, Feature, Step
from ..host.procfs import resctrl_groups_of

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
# goresctrl's, as containerd and CRI-O read them (goresctrl, pkg/rdt and pkg/kubernetes).
_BETA = "rdt.resources.beta.kubernetes.io"
_NRI = "rdtclass.resource-policy.nri.io"  # topology-aware's and balloons'
_CRI = "io.kubernetes.cri.rdt-class"
_ROOT_NAMES = ("", "/", "system/default")


class RdtClassError(HookError):
    """A class that isn't there, or that this namespace may not have."""

    reason = "rdt-class"


class RdtClass(Feature):
    """The RDT class of a container, chosen by annotation or by a default."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Join the class that was chosen, unless the runtime has assigned one already.

        Raises:
            RdtClassError: the class isn't there, or the namespace may not have it.
        """
        name, why = choose(workload, context)
        if not name:
            return [Step(NAME, SKIP, {}, why)]
        needs: "ClassNeeds" = {"class": name}
        return [Step(NAME, INTO_CLASS, needs, f"RDT class {name}, {why}")]

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Move every thread of the container into the class.

        Raises:
            RdtClassError: the class was removed under the container, or somebody moves it back.
            ResctrlError: the kernel refuses.
        """
        needs: "ClassNeeds" = step.parameters
        name = needs["class"]
        resctrl = context.monitor.resctrl
        if not resctrl.fs.is_folder(resctrl.class_folder(name)):
            now = _where(context, container.pid) or "the root class"
            raise RdtClassError(
                f"RDT class {name} was removed; the container runs in {now}",
                hint="`resctrl-hook rdt apply`, then reconcile",
            )
        resctrl.move_all(name, "", lambda: container.threads(context.proc))
        where = _where(context, container.pid)
        if where is not None and where != name:
            raise RdtClassError(
                f"process {container.pid} was moved to RDT class {name} but is in {where or 'the root class'}",
                hint="two programs manage RDT classes here; keep one",
            )

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether the container is in the class, or in one that somebody else moved it to, which stays."""
        where = _where(context, container.pid)
        if where is None:  # /proc does not say: a simulation
            resctrl = context.monitor.resctrl
            return any(container.pid in resctrl.tasks(name, "") for name in resctrl.classes())
        return where != ""


def choose(workload: "Workload", context: "Context") -> "tuple[str, str]":
    """Return the class that a workload is to be put into ("" for none), and why.

    Raises:
        RdtClassError: as `plan`.
    """
    if workload.bundle.class_name:
        return "", f"the runtime assigned RDT class {workload.bundle.class_name}, which stays"
    where = _where(context, workload.pid)
    if where:
        return "", f"its process is in RDT class {where} already, which stays"
    name, why = class_name(workload, context.settings, NAME, _annotations(workload), RdtClassError, _ROOT_NAMES)
    if not name:
        return "", why
    resctrl = context.monitor.resctrl
    if not resctrl.fs.is_folder(f"{resctrl.class_folder(name)}/mon_groups"):
        raise RdtClassError(
            f"there is no RDT class {name[:80]!r} for {why}",
            hint="declare it in rdt.classes and run `resctrl-hook rdt apply`, or mend what names it",
        )
    return name, f"by {why}"


def _where(context: "Context", pid: int) -> "str | None":
    """Return the class that a process is in, "" for the root class, None where nothing says so."""
    try:
        where = resctrl_groups_of(context.proc, pid) if pid else None
    except ProcessLookupError:
        return None
    return where[0] if where else None


def _annotations(workload: "Workload") -> "list[str]":
    """What can ask for a class; the container's own before its pod's."""
    own = workload.container
    names = [f"{OURS}/{own}", OURS] if own else [OURS]
    if workload.runtime != "cri-o":  # which refuses these, or has obeyed them: then the bundle says so
        names += [*([f"{_BETA}/container.{own}"] if own else []), f"{_BETA}/pod", _CRI]
    return names + workload.own_and_pods(_NRI)


FEATURE = RdtClass()
