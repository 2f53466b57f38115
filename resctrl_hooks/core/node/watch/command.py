"""The node half's ``watch`` command: one exec watcher for each node, until SIGTERM."""

import gc
import posix
import sys

from ..errors import HookError
from ..host.files import make_folder, stamp
from ..host.instance import RunningError, only_instance
from ..host.procfs import in_initial_user_namespace
from ..log import ERROR, WARNING, Log
from ..settings import load
from .watcher import STAGE, Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .watcher import Find

LOCK = "watch.lock"
_USAGE = "usage: watch\n"
_WRONG, _WRONG_USE = 1, 2
INTERRUPTED = 130  # a shell's exit status for SIGINT


def watch_command(config: str, arguments: "list[str]", find: "Find" = load) -> int:
    """Watch until a signal ends the process: the kernel frees its locks, and reconcile finishes what it had begun.

    It also ends, with 0, when an upgrade has replaced its program, so that its unit starts the new one.
    Returns 1 where it can't watch or another instance runs, 2 for wrong use.
    """
    if arguments:
        posix.write(2, _USAGE.encode())
        return _WRONG_USE
    stderr = b"INVOCATION_ID" not in posix.environ  # under systemd the journal has it already
    try:
        program = stamp(sys.argv[0])
        watch(config, lambda _: stamp(sys.argv[0]) != program, find, stderr=stderr)
    except KeyboardInterrupt:
        return INTERRUPTED
    except RunningError as error:
        Log(stderr=stderr)(ERROR, f"watch: {error}", stage=STAGE)
        return _WRONG
    except HookError as error:
        Log(stderr=stderr)(ERROR, f"watch: {error}", stage=STAGE, reason=error.reason)
        return _WRONG
    return 0


def watch(config: str, until: "Callable[[Watcher], bool]", find: "Find" = load, *, stderr: bool) -> None:
    """Watch this node as its only watcher for as long as ``until`` is false.

    Raises:
        RunningError: another process watches.
        HookError: the settings or the state directory can't be used.
    """
    if not in_initial_user_namespace():
        raise HookError("not in the host's user namespace", hint="run it as root on the host")
    settings, problem = find(config)
    if problem:
        Log(settings.log, stderr=stderr)(WARNING, problem, stage=STAGE)
    try:
        make_folder(settings.state_dir, 0o700)
        lock = only_instance(f"{settings.state_dir}/{LOCK}")
    except OSError as error:
        raise HookError.of_file(error, f"{settings.state_dir}/{LOCK}") from error
    try:
        watcher = Watcher(config, settings, find, stderr=stderr)
        gc.collect()
        gc.freeze()
        watcher.run(until)
    finally:
        posix.close(lock)
