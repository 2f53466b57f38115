"""The features file on this node: kept fresh by reconcile where `install --nfd` or the administrator has created it."""

import posix
import time

from ..errors import HookError
from ..host.files import read_file, remove_file, write_file
from ..log import WARNING
from .features import facts_of, text_of
from .proof import prove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context

LIFETIME = 3600
"""Seconds for which the facts are valid. They are proved again after half of it, and after a boot."""
_LIMIT = 1 << 16
"""nfd-worker ignores a larger file (node-feature-discovery, source/local/local.go, ``MaxFeatureFileSize``)."""
_READABLE = 0o644
"""nfd-worker is not root."""


def renew(context: "Context") -> None:
    """Prove the facts again if half of their lifetime is over. Never raises: containers do not depend on them.

    A fact that is not proved this time, as by one failed read, stays until its lifetime ends: each pass tries again.
    """
    path = context.settings.node_features_path
    try:
        text = read_file(path, _LIMIT).decode("utf-8", "replace")
        known = facts_of(text, context.monitor.boot)
        age = time.time() - posix.stat(path).st_mtime
        if known is not None and 0 <= age < LIFETIME / 2:  # the clock may have been set back
            return
        facts = prove(context, known or {})
        if known is None or known.keys() <= facts.keys() or not 0 <= age < LIFETIME:
            _write(path, text_of(facts, context.monitor.boot, int(time.time()) + LIFETIME))
    except (OSError, HookError, ValueError) as error:
        what = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        context.log(WARNING, f"cannot update {path}: {what}; its labels expire", stage="reconcile")


def _write(path: str, text: str) -> None:
    """Replace the file. nfd-worker ignores names with a dot, so it never reads an unfinished one.

    Raises:
        OSError: the kernel refuses.
    """
    folder, _, name = path.rpartition("/")
    hidden = f"{folder}/.{name}"
    try:
        write_file(hidden, text.encode())
        posix.chmod(hidden, _READABLE)  # whatever the umask is
        posix.rename(hidden, path)
    except OSError:
        remove_file(hidden)
        raise
