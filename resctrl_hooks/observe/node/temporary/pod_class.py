"""The RDT class of a pod as a value that is changed for a time: moved, kept there, and returned.

Its text is the class, ``/`` for the root class; or, of containers in several classes, ``ID=CLASS/ID=CLASS``.
"""

from ....core.node.reconcile.class_move import classes_now, limit_pod, return_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.context import Context

ROOT = "/"


def text_of(classes: "dict[str, str]") -> str:
    """Return the text of containers' classes."""
    if len({*classes.values()}) == 1:
        return next(iter(classes.values())) or ROOT
    return ROOT.join(f"{name}={one}" for name, one in sorted(classes.items()))


def classes_in(text: str) -> "tuple[dict[str, str], str]":
    """Return the classes by container in a text, and the class of all others."""
    if text == ROOT or ROOT not in text:
        return {}, "" if text == ROOT else text
    found = dict(part.partition("=")[::2] for part in text.split(ROOT))
    return found, next(iter(found.values()))


def names_in(text: str) -> "set[str]":
    """Return the names of the classes in a text."""
    found, rest = classes_in(text)
    return {*found.values()} or {rest}


def read(context: "Context", key: str) -> "str | None":
    """Return the classes of a pod now; None without a living container."""
    found = classes_now(context, key)
    return None if found is None else text_of(found)


def write(context: "Context", key: str, text: str) -> str:
    """Move a pod to a class, where it is kept; return its text."""
    limit_pod(context, key, classes_in(text)[1])
    return text


def give_back(context: "Context", key: str, before: str, ours: "list[str]") -> "list[str]":
    """Return a pod to its classes of before; return lines on containers that another program has moved since."""
    return return_pod(context, key, *classes_in(before), {name for one in ours for name in names_in(one)})
