"""Which scheduling or block I/O class a container has: by its annotations if its namespace may, else by a default."""

from ..container.resources import qos_of
from ..errors import HookError
from ..names import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..container.workload import Workload
    from ..settings import Settings


class ClassError(HookError):
    """A class that isn't there, or that this namespace may not have."""

    reason = "class"


def chosen_class(
    workload: "Workload", settings: "Settings", feature: str, annotations: "tuple[str, ...]"
) -> "tuple[str, Any, str]":
    """The name of the class ("" for none), its definition, and why.

    ``annotations`` are names without what follows: ``/container.NAME`` counts before ``/NAME``, ``/pod`` and none.

    Raises:
        ClassError: there is no such class, or the namespace may not have it.
    """
    section: "dict[str, Any]" = getattr(settings, feature)
    name, source = workload.annotation(*(name for one in annotations for name in workload.own_and_pods(one)))
    if source:
        name, why = name.strip(), f"annotation {source}"
        if not name:
            return "", None, f"{why} is empty, which means none"
        what = f"have {feature} class {name[:80]!r}"
        settings.check_allowed(f"{feature}.allow", workload.namespace, name, what, ClassError)
    else:
        name, why = default_class(workload, section.get("defaults") or {})
        if not name:
            return "", None, f"no {feature} class is annotated, and there is no default for it"
    classes = section.get("classes") or {}
    if name not in classes:
        raise ClassError(f"there is no {feature} class {name[:80]!r}", hint=f"the classes are {', '.join(classes)}")
    return name, classes[name], f"{feature} class {name} by {why}"


def default_class(workload: "Workload", defaults: "dict[str, Any]") -> "tuple[str, str]":
    """The operator's default for a namespace, else for a QoS class ("" for none), and which of them it is."""
    for pattern, name in (defaults.get("namespaces") or {}).items():
        if matches(pattern, workload.namespace):
            return name, f"the default of {f'namespaces {pattern}' if pattern else 'containers without a namespace'}"
    qos = qos_of(workload)
    name = (defaults.get("qos") or {}).get(qos, "") if qos else ""
    return name, f"the default of QoS class {qos}"
