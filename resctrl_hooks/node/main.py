"""The node half's command line: ``[--config FILE] createRuntime|poststop|hook|reconcile|watch|guard|nri|compile …``.

A runtime's hook or a systemd unit starts it from any folder, with an empty environment.
"""

import gc
import posix
import sys

from .container.oci import CREATE_RUNTIME, HOOK, POSTSTOP
from .hook.call import run
from .settings import DEFAULT_CONFIG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WRONG_USE = 2
# The modules of the other commands, which are imported only for these: each has a function NAME_command.
LONG_RUNNING = {
    "reconcile": "reconcile.command",
    "watch": "watch.command",
    "guard": "sampler.command",
    "release": "reconcile.release",
}
_USAGE = (
    "usage: resctrl-hook-node [--config FILE] "
    "createRuntime|poststop|hook|reconcile|release|watch|nri|compile [OPTION...]\n"
)


def main(arguments: "list[str]", nri: "Callable[[str, list[str]], int] | None" = None) -> int:
    """Run one command and return its exit code; ``nri`` serves the command of that name."""
    config = DEFAULT_CONFIG
    if len(arguments) > 1 and arguments[0] == "--config":
        config = arguments[1]
        arguments = arguments[2:]
    command = arguments[0] if arguments else ""
    if command in (CREATE_RUNTIME, POSTSTOP, HOOK) and len(arguments) == 1:
        return run(config, command)
    if command in LONG_RUNNING:
        gc.enable()
        module = __import__(LONG_RUNNING[command], globals(), None, (f"{command}_command",), 1)
        code: int = getattr(module, f"{command}_command")(config, arguments[1:])
        return code
    if command == "nri" and nri is not None:
        gc.enable()
        return nri(config, arguments[1:])
    if command == "compile":
        from .bytecode import compile_command  # called by the installer, once per version and interpreter

        return compile_command(arguments[1:])
    posix.write(2, _USAGE.encode())
    return WRONG_USE


def start(nri: "Callable[[str, list[str]], int] | None" = None) -> None:
    """Run and exit the process at once: an orderly shutdown of the interpreter would cost a fifth of the hook."""
    code = main(sys.argv[1:], nri)
    try:
        sys.stdout.flush()
    finally:
        posix._exit(code)  # noqa: SLF001  # it is public in os, which costs too much to import
