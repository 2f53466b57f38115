"""The processor time of one container in a pass of reconcile: one that uses it up is set aside for a growing pause.

What a pod's author writes has bounded work already (`container.author_input`); this also holds for faults. A large
container that needs nothing rests too, because only the records of others save reading their bundles in each pass.
"""

import posix
import time
from _signal import ITIMER_PROF, SIG_DFL, SIGPROF, setitimer, signal

from .errors import HookError
from .host.files import format_json, parse_json, read_file, remove_file, write_file
from .log import WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from .container.running import Running
    from .context import Context
    from .records import MemberRecord

    T = TypeVar("T")

MOST_SECONDS = 1.0
"""Processor time for one container's plans, which usually need a few milliseconds."""
_AGAIN = 0.25  # in case the error is taken for that of one feature
FIRST_PAUSE, LONGEST_PAUSE = 300, 86400
FILE, UNSERVED = "aside", "unserved"
LARGE = 1 << 20
"""Bytes of a bundle's ``config.json``; reading and planning takes 10 ms for each."""
_LIMIT = 1 << 20
_MOST = 1000


class SetAsideError(HookError):
    """A container has used up its processor time, in this pass or an earlier one."""

    reason = "set-aside"
    hint = "use fewer or simpler annotations in this pod"


def bounded(context: "Context", container: str, act: "Callable[[], T]") -> "T":
    """Return the result of ``act`` for a container, within its processor time.

    Raises:
        SetAsideError: it is set aside.
    """
    known = _read(context)
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    until, pause = known.get(container, (0, 0))
    if now < until <= now + pause:  # a later end is of another boot
        raise SetAsideError(f"set aside for {until - now} s: its plan used {MOST_SECONDS:g} s of processor time")
    spent: "list[int]" = []

    def rise(*_: object) -> None:
        spent.append(1)
        raise SetAsideError(f"its plan used {MOST_SECONDS:g} s of processor time")

    try:
        before = signal(SIGPROF, rise)
    except ValueError:
        return act()  # not in the main thread, which alone gets signals
    try:
        setitimer(ITIMER_PROF, MOST_SECONDS, _AGAIN)
        return act()
    finally:
        setitimer(ITIMER_PROF, 0)
        signal(SIGPROF, SIG_DFL if before is None else before)  # None: it was not set by Python
        if spent:
            pause = min(pause * 2 or FIRST_PAUSE, LONGEST_PAUSE)
            _write({**known, container: (now + pause, pause)}, now, context)
            what = f"container {container[:12]} is set aside for {pause} s"
            context.log(
                WARNING,
                f"{what}: its plan used {MOST_SECONDS:g} s of processor time; the pass goes on without it",
                stage="reconcile",
                container=container,
                reason=SetAsideError.reason,
            )
        elif container in known:
            _write({one: value for one, value in known.items() if one != container}, now, context)


def resting(context: "Context") -> "set[str]":
    """Return the containers that rest: their bundles are not read, and nothing is planned for them meanwhile."""
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    return {one for one, (until, pause) in _read(context, UNSERVED).items() if now < until <= now + pause}


def let_rest(containers: "Iterable[Running]", context: "Context") -> None:
    """Let large containers rest that need nothing, or have features that cannot be planned."""
    large = [one.id for one in containers if _is_read_in_vain(one) and _is_large(one.record)]
    new = set(large) - resting(context) if large else ()
    if not new:
        return
    try:
        context.ledger.prepare()  # this may be the first file after boot
    except (HookError, OSError):
        return
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    known = {one: value for one, value in _read(context, UNSERVED).items() if now < value[0]}
    _write({**known, **dict.fromkeys(new, (now + FIRST_PAUSE, FIRST_PAUSE))}, now, context, UNSERVED)


def _is_read_in_vain(container: "Running") -> bool:
    record = container.record
    if container.recorded:
        return bool(record.get("unplanned"))
    return not (record["steps"] or record.get("unplanned") or record.get("intelRdt"))


def _is_large(record: "MemberRecord") -> bool:
    try:
        return posix.stat(f"{record['bundle']}/config.json").st_size > LARGE
    except OSError:
        return False


def _read(context: "Context", name: str = FILE) -> "dict[str, tuple[int, int]]":
    """Return the end of the pause, in seconds since the boot, and its length, by container."""
    try:
        found: "Any" = parse_json(read_file(f"{context.settings.state_dir}/{name}", _LIMIT))
        return {str(one): (int(until), int(pause)) for one, (until, pause) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # none is set aside


def _write(known: "dict[str, tuple[int, int]]", now: int, context: "Context", name: str = FILE) -> None:
    """Write the containers that pause; one whose pause ended long ago has ended too."""
    recent = {one: value for one, value in known.items() if now < value[0] + LONGEST_PAUSE}
    path = f"{context.settings.state_dir}/{name}"
    try:
        if recent:
            write_file(path, format_json({one: list(recent[one]) for one in list(recent)[-_MOST:]}))
        else:
            remove_file(path)
    except OSError:
        pass  # then the next pass tries it again
