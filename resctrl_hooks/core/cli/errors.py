"""Error output of all commands: one line that begins with `resctrl-hook:`, never a traceback."""

import difflib
import errno
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import click

from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.streams import OutputError, standard_streams
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.fault_report import lacks_root
from resctrl_hooks.core.node.settings import active_path

NAME = "resctrl-hook"
INVALID = 2
"""The exit code of wrong use and of invalid input, as click's."""
KUBECTL = "kubectl resctrl"
"""The second program of the package, as its users call it."""
TRACEBACK = "RESCTRL_HOOK_TRACEBACK"  # environment variable that prints the traceback of an internal error
WORDS = ("help", "version")
"""Words that are options, accepted in place of a command."""
_KUBECTLS = {"get": "list", "describe": "show"}
_NO_ARGUMENTS: type[click.UsageError] | None = getattr(click.exceptions, "NoArgsIsHelpError", None)  # click 8.2


class FailedError(click.ClickException):
    """Failure of a command with a known cause; the exit code is ``code``."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(with_config(message))
        self.exit_code: int = code  # type: ignore[misc]  # click declares it for the class, and documents both
        self._program = _program(click.get_current_context(silent=True))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error line."""
        click.echo(f"{self._program}: {self.format_message()}", file=file, err=file is None)


class MisusedError(click.UsageError):
    """Invalid usage of a command."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the usage and the error line."""
        if self.ctx is not None:
            help_ = f"Try '{self.ctx.command_path} --help' for help.\n"
            click.echo(f"{self.ctx.get_usage()}\n{help_}", file=file, err=file is None)
        text = with_config(self.format_message(), self.ctx)
        click.echo(f"{_program(self.ctx)}: {text}", file=file, err=file is None)


def remarks() -> Callable[[object], None]:
    """Return a function that prints a line on stderr; threads without this call's context can call it too."""
    context = click.get_current_context(silent=True)

    def output(text: object) -> None:
        click.echo(f"{NAME}: {with_config(str(text), context)}", err=True)

    return output


def print_problems(problems: Iterable[Any]) -> None:
    """Print the problems of a configuration on stderr."""
    for problem in problems:
        click.echo(f"{problem.severity}: {problem}", err=True)


@contextmanager
def in_one_line(arguments: Sequence[str] = ()) -> Iterator[None]:
    """Convert every exception into a `FailedError` or `MisusedError`, which click prints before it exits.

    ``arguments`` are the command's arguments; the error repeats them with sudo where only permission is missing.
    """
    try:
        yield
    except (click.exceptions.Exit, click.Abort, FailedError, MisusedError):
        raise
    except click.UsageError as error:
        if _NO_ARGUMENTS and isinstance(error, _NO_ARGUMENTS) and error.ctx is not None:
            click.echo(error.ctx.get_help())  # a command group without a subcommand prints its help
            raise click.exceptions.Exit(0) from None
        raise MisusedError(_misuse(error), error.ctx) from error
    except click.ClickException as error:
        text = _forbidden(error.__cause__, arguments) or error.format_message()
        raise FailedError(text, error.exit_code) from error
    except HookError as error:
        raise FailedError(_forbidden(error, arguments) or str(error)) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise  # the reader closed the pipe: click ends quietly
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error, file=sys.stderr)
        raise FailedError(_forbidden(error, arguments) or _wrong_settings(error) or _fault(error)) from error


class HelpfulGroup(click.Group):
    """Group that accepts `help` and `version` as commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; `help COMMAND` and `version` mean the options, as in kubectl."""
        if args == ["help"]:
            click.echo(ctx.get_help())
            ctx.exit()
        if args == ["version"]:
            _print_version(ctx)
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().resolve_command(ctx, args)


class OneLineGroup(HelpfulGroup):
    """Group that reports each failure in one line."""

    arguments: Sequence[str] = ()

    def main(self, *given: Any, **named: Any) -> Any:
        """Run the program."""
        with standard_streams():
            return super().main(*given, **named)

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        """Return the context of a call."""
        with in_one_line():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with in_one_line(self.arguments):
            return super().invoke(ctx)


def no_such_command(name: str, known: Sequence[str]) -> str:
    """Return the error for a mistyped command, or for one of kubectl's."""
    close = [_KUBECTLS[name]] if name in _KUBECTLS else difflib.get_close_matches(name, known)
    return f"unknown command {name!r}; did you mean {close[0]}?" if close else f"unknown command {name!r}"


def _program(ctx: click.Context | None) -> str:
    """Return the program's name for error lines, however it was started."""
    return KUBECTL if ctx is not None and ctx.find_root().info_name == KUBECTL else NAME


def _forbidden(error: BaseException | None, arguments: Sequence[str]) -> str:
    text = lacks_root(error) if error is not None else ""
    return f"{text}; try {shlex.join(['sudo', NAME, *arguments])}" if text else ""


def _print_version(ctx: click.Context) -> None:
    """Print the version and exit, if the program has an option for it."""
    for option in ctx.command.params:
        if option.name == "version" and option.callback is not None:
            option.callback(ctx, option, True)  # noqa: FBT003  # click's signature


def _misuse(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name == "--config" and error.ctx is not None:
        rest = error.ctx.command_path.removeprefix(NAME).strip()
        return f"--config must precede the command: {NAME} --config FILE {rest}".rstrip()
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        plain = {one.lstrip("-"): one for one in error.possibilities}
        close = difflib.get_close_matches(error.option_name.lstrip("-"), plain)  # click counts the dashes too
        near = [plain[one] for one in close]
        return click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx).format_message()
    return error.format_message()


def _wrong_settings(error: Exception) -> str:
    """Return the first mistake in the active settings, which can be the cause of a fault; empty without one.

    `config apply` checks all values; the node half trusts them, and the file may come from elsewhere.
    """
    context = click.get_current_context(silent=True)
    config = context.find_root().params.get("config") if context is not None else None
    if isinstance(error, OSError) or not config or not os.path.lexists(active_path(config)):
        return ""
    from resctrl_hooks.core.config.applied import check_compiled  # noqa: PLC0415  # pydantic, for faults only

    path = active_path(config)
    try:
        wrong = check_compiled(path).errors
    except (OSError, ValueError):
        return ""
    return f"invalid settings: {wrong[0]}" if wrong else ""


def _fault(error: Exception) -> str:
    """Return the system's words for an error of the system; any other error is a bug, reported with its place."""
    if isinstance(error, OutputError):
        return f"cannot write the output: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    text = f"internal error in {NAME}: {type(error).__name__}: {error}"
    if isinstance(error, OSError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {os.path.basename(frames[-1].filename)}:{frames[-1].lineno} ({frames[-1].name})" if frames else ""
    return f"{text}{where}; please report it with the output of {TRACEBACK}=1"
