"""The RDT class of a pod as a value that is changed for a time: moved, kept there, and returned.

Its text is the class, ``/`` for the root class; or, of containers in several classes, ``ID=CLASS/ID=CLASS``.
"""

from ....core.node.reconcile.class_move import classes_now, keep_no_longer, limit_pod, return_pod

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


def give_back(context: "Context", key: str, before: str, ours: "list[str]", now: "str | None" = None) -> str:
    """Return a pod to its classes of before; return a line, empty if it was there already.

    A pod that another program has moved since stays. One whose class was removed is in the root class: the
    kernel has put it there.
    """
    resctrl = context.monitor.resctrl
    mine = set().union(*map(names_in, (before, *ours)))
    gone = [name for name in mine if name and not resctrl.fs.is_folder(resctrl.class_folder(name))]
    if now is not None and not names_in(now) <= (mine | {""} if gone else mine):
        keep_no_longer(context, key)
        return f"class of pod {key} is {now}"
    return_pod(context, key, *classes_in(before), left=[name for one in ours for name in names_in(one)])
    return ""
