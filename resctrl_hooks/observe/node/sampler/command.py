"""The node half's ``guard run`` and ``guard restore``: the resident process, and the restoration after its end.

The process is named after its first resident, so that an upgrade keeps the unit and the commands of earlier versions.
"""

import posix
from _signal import SIGINT, SIGTERM, signal

from ....core.node.context import Context
from ....core.node.errors import HookError
from ....core.node.host.files import stamp
from ....core.node.host.notify import Notify
from ....core.node.log import ERROR, WARNING, Log
from ....core.node.settings import compiled_path, load
from ..guard.resident import restore_values
from .process import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Changed = Callable[[], bool]

    from ....core.node.settings import Settings

    Find = Callable[[str], tuple[Settings, str]]

STAGE = "guard"
_USAGE = "usage: guard run|restore\n"
_WRONG, _WRONG_USE = 1, 2


def guard_command(config: str, arguments: "list[str]", find: "Find" = load) -> int:
    """Run the process until SIGTERM, or restore the values that an ended guard changed.

    The process closes all residents and begins again when its compiled settings change: on OpenShift a MachineConfig
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
    """Run the process with the settings of now, or with None for ``ended`` restore; return the exit code."""
    stderr = b"INVOCATION_ID" not in posix.environ  # under systemd the journal has it already
    log: "Log" = Log(stderr=stderr)
    try:
        settings, problem = find(config)
        log = Log(settings.log, stderr=stderr)
        if problem:
            log(WARNING, problem, stage=STAGE)
        context = Context(settings, log)
        context.ledger.prepare()
        done = restore_values(context) if ended is None else run(context, Notify(), changed, ended)
        return 0 if done else _WRONG
    except HookError as error:
        log(ERROR, f"guard: {error}", stage=STAGE, reason=error.reason)
    except OSError as error:
        log(ERROR, f"guard: {error.filename}: {error.strerror}", stage=STAGE)
    return _WRONG
