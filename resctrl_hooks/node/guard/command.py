"""The node half's ``guard run`` and ``guard restore``: the resident guard, and the restoration after its end."""

import gc
import posix
import time
from _signal import SIGINT, SIGTERM, signal

from ..context import Context
from ..errors import HookError
from ..host.files import stamp
from ..host.instance import RunningError, only_instance
from ..host.notify import Notify
from ..host.topology_sysfs import TopologyError, read_topology
from ..log import ERROR, NOTICE, WARNING, Log
from ..settings import compiled_path, load
from .guard import STAGE, Guard
from .lease import restore_left
from .section import ACT, OFF, section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Changed = Callable[[], bool]

    from ..settings import Settings

    Find = Callable[[str], tuple[Settings, str]]

LOCK = "guard.lock"
_USAGE = "usage: guard run|restore\n"
_WRONG, _WRONG_USE = 1, 2
_PAUSE = 0.2  # seconds between two looks at the signal flag


def guard_command(config: str, arguments: "list[str]", find: "Find" = load) -> int:
    """Run the guard until SIGTERM, or restore the values that an ended guard changed.

    The guard restores all values and begins again when its compiled settings change: on OpenShift a MachineConfig
    replaces them beside it. Return 0 when done, 1 for a failure, 2 for wrong use.
    """
    if arguments not in (["run"], ["restore"]):
        posix.write(2, _USAGE.encode())
        return _WRONG_USE
    ended: "list[int]" = []
    if arguments == ["run"]:
        for number in (SIGTERM, SIGINT):
            signal(number, lambda number, _: ended.append(number))
    while True:
        seen = stamp(compiled_path(config))

        def changed(seen: object = seen) -> bool:
            now = stamp(compiled_path(config))
            return now is not None and now != seen

        code = _once(config, find, changed, ended if arguments == ["run"] else None)
        if code or ended or arguments == ["restore"] or not changed():
            return code


def _once(config: str, find: "Find", changed: "Changed", ended: "list[int] | None") -> int:
    """Run the guard with the settings of now, or with None for ``ended`` restore; return the exit code."""
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
            return give_back(context) if ended is None else run(context, changed, ended)
        finally:
            posix.close(lock)
    except RunningError as error:
        log(ERROR, f"guard: {error}; its end restores all values", stage=STAGE)
    except HookError as error:
        log(ERROR, f"guard: {error}", stage=STAGE, reason=error.reason)
    except OSError as error:
        log(ERROR, f"guard: {error.filename}: {error.strerror}", stage=STAGE)
    return _WRONG


def run(context: Context, changed: "Changed", ended: "list[int]") -> int:
    """Guard this node until a signal is in ``ended`` or the settings have changed, then restore every value."""
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
        _loop(guard, float(settings["interval"]), notify, changed, ended)
        if not ended:
            context.log(
                NOTICE, "guard: the settings have changed; restoring all values and starting again", stage=STAGE
            )
    finally:
        if ended:
            notify(STOPPING="1")
        restored = guard.end()
    return 0 if restored else _WRONG


def _loop(guard: Guard, interval: float, notify: Notify, changed: "Changed", ended: "list[int]") -> None:
    following = time.monotonic()
    while not ended and not changed():
        guard.look(time.monotonic())
        following = max(following + interval, time.monotonic())
        while not ended and not changed() and (left := following - time.monotonic()) > 0:
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
