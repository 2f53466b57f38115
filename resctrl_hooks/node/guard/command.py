"""The node half's ``guard run`` and ``guard restore``: the resident guard, and the restoration after its end."""

import gc
import posix
import time
from _signal import SIGINT, SIGTERM, signal

from ..context import Context
from ..errors import HookError
from ..host.instance import RunningError, only_instance
from ..host.notify import Notify
from ..host.topology_sysfs import TopologyError, read_topology
from ..log import ERROR, NOTICE, WARNING, Log
from ..settings import load
from .guard import STAGE, Guard
from .lease import restore_left
from .section import ACT, OFF, section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..settings import Settings

    Find = Callable[[str], tuple[Settings, str]]

LOCK = "guard.lock"
_USAGE = "usage: guard run|restore\n"
_WRONG, _WRONG_USE = 1, 2
_PAUSE = 0.2  # seconds between two looks at the signal flag


def guard_command(config: str, arguments: "list[str]", find: "Find" = load) -> int:
    """Run the guard until SIGTERM, or restore the values that an ended guard changed.

    Return 0 when done, 1 for a failure, 2 for wrong use.
    """
    if arguments not in (["run"], ["restore"]):
        posix.write(2, _USAGE.encode())
        return _WRONG_USE
    stderr = b"INVOCATION_ID" not in posix.environ  # under systemd the journal has it already
    log: "Log" = Log(stderr=stderr)
    try:
        settings, problem = find(config)
        log = Log(settings.log, stderr=stderr)
        if problem:
            log(WARNING, problem, stage=STAGE)
        context = Context(settings, log)
        context.ledger.prepare()
        lock = only_instance(f"{settings.state_dir}/{LOCK}")
        try:
            return run(context) if arguments == ["run"] else give_back(context)
        finally:
            posix.close(lock)
    except RunningError as error:
        log(ERROR, f"guard: {error}; its end restores all values", stage=STAGE)
    except HookError as error:
        log(ERROR, f"guard: {error}", stage=STAGE, reason=error.reason)
    except OSError as error:
        log(ERROR, f"guard: {error.filename}: {error.strerror}", stage=STAGE)
    return _WRONG


def run(context: Context) -> int:
    """Guard this node until SIGTERM or SIGINT, then restore every value."""
    ended: "list[int]" = []
    for number in (SIGTERM, SIGINT):
        signal(number, lambda number, _: ended.append(number))
    settings = section(context.settings)
    notify = Notify()
    if give_back(context):  # leftovers of an earlier guard; its values would pass for declared ones
        return _WRONG
    if settings["mode"] == OFF:
        context.log(NOTICE, "guard: rdt.guard.mode is off; nothing to do", stage=STAGE)
        notify(READY="1")
        return 0
    try:
        topology = read_topology(context.settings.sys_path)
    except TopologyError:
        topology = None
    guard = Guard(context, topology, posix.getpid(), time.monotonic())
    if guard.mode == ACT:
        context.log(NOTICE, "guard: mode act is experimental", stage=STAGE)
    notify(READY="1", STATUS=f"mode {guard.mode}")
    gc.collect()
    try:
        _loop(guard, float(settings["interval"]), notify, ended)
    finally:
        notify(STOPPING="1")
        restored = guard.end()
    return 0 if restored else _WRONG


def _loop(guard: Guard, interval: float, notify: Notify, ended: "list[int]") -> None:
    following = time.monotonic()
    while not ended:
        guard.look(time.monotonic())
        following = max(following + interval, time.monotonic())
        while not ended and (left := following - time.monotonic()) > 0:
            notify.alive()  # an interval may be longer than the watchdog's
            time.sleep(min(left, _PAUSE))


def give_back(context: Context) -> int:
    """Restore the values of an existing lease; return 1 if one could not be restored.

    Raises:
        LeaseError: the lease cannot be read. It stays.
    """
    result = restore_left(context.monitor.resctrl, context.settings.state_dir, context.proc)
    for line in result.done:
        context.log(NOTICE, f"guard: restored {line}", stage=STAGE)
    for line in result.foreign:
        context.log(WARNING, f"guard: {line}", stage=STAGE)
    for line in result.failed:
        context.log(ERROR, f"guard: cannot restore {line}", stage=STAGE)
    return _WRONG if result.failed else 0
