"""RDT classes that are created for a time: made with their schemata, removed when they are empty."""

import errno

from ....core.node.errors import ResctrlError
from ....core.node.host.files import GONE
from ....core.node.resctrl.kernel_refusals import last_cmd_status
from ....core.node.resctrl.schemata import write_schemata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....core.node.resctrl.filesystem import Resctrl

PREFIX = "limit-"
"""Begins the names of classes that `resctrl-hook limit` creates."""


def make(resctrl: "Resctrl", name: str, lines: "Sequence[str]") -> None:
    """Create a class with these lines of its schemata, unless it is there already.

    Raises:
        ResctrlError: the kernel refuses.
    """
    folder = resctrl.class_folder(name)
    try:
        resctrl.fs.mkdir(folder)
    except FileExistsError:
        return
    except OSError as error:
        there = ", ".join(sorted(resctrl.classes())) or "no other class"
        hint = f"no CLOSID or RMID is free; limit to one of these with --class: {there}"
        raise ResctrlError(
            f"cannot create RDT class {name}",
            errno=error.errno or 0,
            kernel=last_cmd_status(resctrl),
            hint=hint if error.errno == errno.ENOSPC else "",
        ) from error
    try:
        for line in lines:
            write_schemata(resctrl, name, line)
    except ResctrlError:
        resctrl.fs.rmdir(folder)
        raise


def remove(resctrl: "Resctrl", name: str) -> bool:
    """Remove a class without tasks and groups; return whether it is gone."""
    if resctrl.fs.is_folder(resctrl.class_folder(name)):
        if resctrl.groups(name) or resctrl.tasks(name, ""):
            return False  # another program has moved them there
        try:
            resctrl.fs.rmdir(resctrl.class_folder(name))
        except OSError as error:
            return error.errno in GONE
    return True
