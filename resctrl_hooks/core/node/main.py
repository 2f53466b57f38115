"""The node half's command line: ``[--config FILE] createRuntime|poststop|hook|reconcile|release|watch|compile …``.

Parts add commands.

A runtime's hook or a systemd unit starts it from any folder, with an empty environment.
"""

import gc
import posix
import sys

from .container.oci import CREATE_RUNTIME, HOOK, POSTSTOP
from .hook.call import run
from .part import load
from .parts import PARTS
from .settings import DEFAULT_CONFIG

FAILED = 1
WRONG_USE = 2
LONG_RUNNING = {
    "reconcile": "core.node.reconcile.command:reconcile_command",
    "release": "core.node.reconcile.release:release_command",
    "watch": "core.node.watch.command:watch_command",
}
"""The other commands of core, which are imported only where they run."""
_USAGE = "usage: resctrl-hook-node [--config FILE] createRuntime|poststop|hook|{}|compile [OPTION...]\n"
_NO_CODE = (
    "resctrl-hook: the modules of `{}` are not installed here; install again with the settings or the option of "
    "`resctrl-hook install` that need it\n"
)


def long_running_commands() -> "dict[str, str]":
    """Return the commands of core and of the parts by name: functions as `part.load` takes them."""
    found = {**LONG_RUNNING}
    for part in PARTS:
        found.update(part.get("commands", {}))
    return found


def main(arguments: "list[str]") -> int:
    """Run one command and return its exit code."""
    config = DEFAULT_CONFIG
    if len(arguments) > 1 and arguments[0] == "--config":
        config = arguments[1]
        arguments = arguments[2:]
    command = arguments[0] if arguments else ""
    if command in (CREATE_RUNTIME, POSTSTOP, HOOK) and len(arguments) == 1:
        return run(config, command)
    long_running = long_running_commands()
    if command in long_running:
        gc.enable()
        try:
            function = load(long_running[command])
        except ModuleNotFoundError as error:
            if not str(error.name).startswith(__name__.partition(".")[0]):
                raise
            posix.write(2, _NO_CODE.format(command).encode())
            return FAILED
        code: int = function(config, arguments[1:])
        return code
    if command == "compile":
        from .bytecode import compile_command  # called by the installer, once per version and interpreter

        return compile_command(arguments[1:])
    posix.write(2, _USAGE.format("|".join(long_running)).encode())
    return WRONG_USE


def start() -> None:
    """Run and exit the process at once: an orderly shutdown of the interpreter would cost a fifth of the hook."""
    code = main(sys.argv[1:])
    try:
        sys.stdout.flush()
    finally:
        posix._exit(code)  # noqa: SLF001  # it is public in os, which costs too much to import
