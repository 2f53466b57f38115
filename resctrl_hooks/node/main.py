"""The node half's command line: ``[--config FILE] createRuntime|poststop|hook|reconcile|compile …``.

Started by a runtime's hook or a systemd unit, from any folder, with an empty environment.
"""

import gc
import posix
import sys

from .hook import CREATE_RUNTIME, DONE, HOOK, POSTSTOP, REFUSED, run
from .settings import DEFAULT_CONFIG, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .settings import Settings

WRONG_USE = 2
_USAGE = "usage: resctrl-hook-node [--config FILE] createRuntime|poststop|hook|reconcile|compile [OPTION...]\n"


def main(arguments: "list[str]") -> int:
    """Runs one command and returns its exit code."""
    config = DEFAULT_CONFIG
    if len(arguments) > 1 and arguments[0] == "--config":
        config = arguments[1]
        arguments = arguments[2:]
    command = arguments[0] if arguments else ""
    if command in (CREATE_RUNTIME, POSTSTOP, HOOK) and len(arguments) == 1:
        return serve(config, command)
    if command == "reconcile":
        gc.enable()  # it can run for long
        from .reconcile_command import reconcile_command  # a hook has no use for it

        return reconcile_command(config, arguments[1:])
    if command == "compile":
        from .compiled import compile_command  # the installer's, once per version and interpreter

        return compile_command(arguments[1:])
    posix.write(2, _USAGE.encode())
    return WRONG_USE


def serve(config: str, stage: str, find: "Callable[[str], tuple[Settings, str]]" = load) -> int:
    """A hook stage; a fault of our own is one line in the log, answered as the policy says, and never a traceback."""
    try:
        return run(config, stage, find)
    # A container's start must not depend on our having no bugs, nor on somebody's Ctrl-C at a terminal.
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        from .faults import report  # only when something is broken

        return REFUSED if report(config, stage, error, find) and stage != POSTSTOP else DONE


def start() -> None:
    """Runs and ends the process at once: taking the interpreter down in good order would cost a fifth of the hook."""
    code = main(sys.argv[1:])
    try:
        sys.stdout.flush()
    finally:
        posix._exit(code)  # noqa: SLF001  # it is public in os, which costs too much to import
