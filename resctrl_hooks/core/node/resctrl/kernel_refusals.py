"""Explanatory errors for operations that the kernel refused."""

from .. import errors
from ..host.files import GONE
from ..names import RESCTRL_ROOT
from .absence import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from . import absence

    class Resctrl(absence.Resctrl, Protocol):
        """The part of `filesystem.Resctrl` that explanations need."""

        def class_folder(self, rdt_class: str) -> str:
            """Return the folder of a class."""

        def group_folder(self, rdt_class: str, name: str) -> str:
            """Return the folder of a mon_group."""


def refused(
    resctrl: "Resctrl",
    error: OSError,
    message: str,
    rdt_class: str = "",
    kinds: "dict[int, type[errors.ResctrlError]] | None" = None,
) -> "errors.ResctrlError":
    """Return the typed error for an operation in a class that the kernel refused.

    ``kinds`` is the meaning of each errno, by default `errors.BY_ERRNO`.
    """
    number = error.errno or 0
    if number in GONE:
        if _is_missing(resctrl, resctrl.group_folder("", "").rstrip("/")):
            if not _is_missing(resctrl, f"{resctrl.root}/info"):
                return errors.NoMonitoringError(f"resctrl at {resctrl.root} has no monitoring", errno=number)
            return missing(resctrl.root, resctrl.proc, number)
        folder = resctrl.class_folder(rdt_class)
        if _is_missing(resctrl, folder):
            return errors.BadClassError(f"RDT class {rdt_class!r} does not exist ({folder})", errno=number)
    kind = (kinds or errors.BY_ERRNO).get(number, errors.ResctrlError)
    hint = kind.hint.replace(RESCTRL_ROOT, resctrl.root)
    return kind(message, hint=hint, errno=number, kernel=last_cmd_status(resctrl))


def last_cmd_status(resctrl: "Resctrl") -> str:
    """Return the kernel's message on the last resctrl operation of any process on this node; empty for none."""
    try:
        text = resctrl.fs.read(f"{resctrl.root}/info/last_cmd_status").decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return "" if text == "ok" else text


def _is_missing(resctrl: "Resctrl", folder: str) -> bool:
    """Return whether a folder certainly does not exist."""
    try:
        return not resctrl.fs.is_folder(folder)
    except OSError:
        return False
