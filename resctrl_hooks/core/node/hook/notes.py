"""Notes on what a start leaves alone: values that others set for the container, and annotations that nothing reads."""

from ..container.oci import CREATE_RUNTIME
from ..container.unread_annotations import are_missed, unread_annotations
from ..log import INFO, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.workload import Workload
    from ..context import Context
    from ..resctrl.locked_key import LockedKey


def in_words(foreign: "dict[str, list[str]]") -> str:
    """Return foreign values that stay, by feature, as one text."""
    return "; ".join(f"{feature}: {', '.join(values)}" for feature, values in foreign.items())


def log_foreign(workload: "Workload", foreign: "dict[str, list[str]]", context: "Context") -> None:
    """Log the values that an earlier NRI plugin or the runtime's client set, which stay."""
    what = f"{workload}: set by an earlier NRI plugin or the runtime's client, left unchanged: {in_words(foreign)}"
    context.log(INFO, what, stage=CREATE_RUNTIME, key=workload.key, container=workload.id)


def note_unread(workload: "Workload", locked: "LockedKey", context: "Context") -> None:
    """Record, and log once for a pod, annotations of NRI plugins that nothing reads."""
    names = unread_annotations(workload.annotations)
    if not names or not locked.tracked or locked.record.get("unread") == names:
        return
    locked.record["unread"] = names
    locked.save()
    priority = WARNING if are_missed(context.settings) else INFO
    what = f"{workload}: annotations of NRI plugins are not read: {', '.join(names)}; see docs/migration.md"
    context.log(priority, what, stage=CREATE_RUNTIME, key=workload.key, container=workload.id)
