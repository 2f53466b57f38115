"""Selection of a container's class: by its annotations if its namespace is allowed to, else by default."""

from ..container.resources import qos_of
from ..errors import HookError
from ..names import matches
from ..permissions import allows, check_allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..container.workload import Workload
    from ..settings import Settings


_IN_WORDS = {"rdt": "RDT"}
NO_CLASS = "none"
"""The name in an ``allow`` table that permits no class in place of the default one."""


class ClassError(HookError):
    """The class does not exist, or is not allowed for this namespace."""

    reason = "class"


def chosen_class(
    workload: "Workload", settings: "Settings", feature: str, annotations: "tuple[str, ...]"
) -> "tuple[str, Any, str]":
    """Return the name of the class ("" for none), its definition, and the reason.

    ``annotations`` are names without suffix: ``/container.NAME`` precedes ``/NAME``, ``/pod`` and the bare name.

    Raises:
        ClassError: the class does not exist, or is not allowed for the namespace.
    """
    names = [name for one in annotations for name in workload.own_and_pods(one)]
    name, why = class_name(workload, settings, feature, names)
    if not name:
        return "", None, why
    classes = getattr(settings, feature).get("classes") or {}
    if name not in classes:
        raise ClassError(f"unknown {feature} class {name[:80]!r}", hint=f"the classes are {', '.join(classes)}")
    return name, classes[name], f"{feature} class {name} by {why}"


def class_name(
    workload: "Workload",
    settings: "Settings",
    feature: str,
    annotations: "list[str]",
    error: "type[HookError]" = ClassError,
    none: "tuple[str, ...]" = ("",),
    declared: "list[str] | None" = None,
) -> "tuple[str, str]":
    """Return the name of the container's class ("" for none), and the reason.

    The first existing one of ``annotations`` counts; the names in ``none`` request no class. That needs permission for
    one of these names, or for `NO_CLASS`, if the operator has a default for the container. ``declared``
    are the names of all classes; by default those of the feature's section.

    Raises:
        HookError: of the type ``error``: the class is not allowed for the namespace.
    """
    kind = _IN_WORDS.get(feature, feature)
    name, source = workload.annotation(*annotations)
    name = name.strip()
    if source and name not in none:
        what = f"use {kind} class {name[:80]!r}"
        known = getattr(settings, feature).get("classes") or () if declared is None else declared
        check_allowed(settings, f"{feature}.allow", workload, name, what, error, known)
        return name, f"annotation {source}"
    default, why = _default_class(workload, getattr(settings, feature).get("defaults") or {})
    if not source:
        return default, why if default else f"no {kind} class by annotation or default"
    if default:
        allow = getattr(settings, feature).get("allow")
        permitted = next((one for one in none if one and allows(allow, workload.namespace, one)), NO_CLASS)
        check_allowed(settings, f"{feature}.allow", workload, permitted, f"use no {kind} class", error)
    return "", f"annotation {source} is {name or 'empty'}: no class"


def may_have_none(workload: "Workload", settings: "Settings", feature: str) -> bool:
    """Return whether a container may have no class: it has no default one, or its namespace may leave it."""
    section = getattr(settings, feature)
    if not _default_class(workload, section.get("defaults") or {})[0]:
        return True
    return workload.verified and allows(section.get("allow"), workload.namespace, NO_CLASS)


def _default_class(workload: "Workload", defaults: "dict[str, Any]") -> "tuple[str, str]":
    """Return the operator's default for a namespace, else for a QoS class ("" for none), and which of them it is."""
    for pattern, name in (defaults.get("namespaces") or {}).items():
        if matches(pattern, workload.namespace):
            return name, f"the default of {f'namespaces {pattern}' if pattern else 'containers without a namespace'}"
    qos = qos_of(workload)
    name = (defaults.get("qos") or {}).get(qos, "") if qos else ""
    return name, f"the default of QoS class {qos}"
