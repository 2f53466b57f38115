"""Parts of several commands of the house: option types for bandwidths and times, options, and the end by a signal."""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from resctrl_hooks.core.cli.errors import INVALID, FailedError
from resctrl_hooks.core.cli.params import Duration
from resctrl_hooks.observe.past.times import FORMS, parse_time
from resctrl_hooks.observe.recording.files import FORMATS, RecordingError


class Bandwidth(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """Bytes per second, with a decimal prefix as on disks and networks: ``120G`` is 120 000 000 000."""

    name = "bandwidth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        text = str(value).strip().removesuffix("B/s")
        number = text.rstrip("kMGT")
        if not number.isascii() or not number.replace(".", "", 1).isdecimal() or len(text) - len(number) > 1:
            self.fail(f"{value!r} is not a bandwidth such as 500M or 120G.", param, ctx)
        scale = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[text[len(number) :]]
        found = float(number) * scale
        if not found:
            self.fail("a bandwidth is above 0.", param, ctx)
        return found


def not_negative(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Return a number of at least 0. A callback."""
    if value is not None and not 0 <= value < math.inf:
        raise click.BadParameter(f"{value:g} is not a number from 0 on.", context, parameter)
    return value


def domain_of(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Return resource and id of a domain that counts, such as ``MB_1``; of ``1`` an empty resource. A callback."""
    if value is None:
        return None
    resource, _, number = value.rpartition("_")
    if not number.isascii() or not number.isdecimal():
        raise click.BadParameter(f"{value!r} is not a domain such as 1 or MB_1.", context, parameter)
    return resource, int(number)


class Past(click.ParamType):  # type: ignore[type-arg]  # as above
    """A moment of the past in the words of `resctrl_hooks.observe.past.times`, as seconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        if isinstance(value, float):
            return value
        try:
            found = parse_time(str(value), datetime.now().astimezone()).timestamp()
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if found < 0:
            self.fail(f"{value!r} is before 1970.", param, ctx)
        return found


def ended_by_signals() -> threading.Event:
    """Return what SIGTERM and SIGINT set."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended


def interval_option(default: str, text: str) -> Callable[[Any], Any]:
    """Add ``--interval``, of a tenth of a second or more, to a command."""
    return click.option("--interval", type=Duration(0.1), default=default, show_default=True, help=text)


def at_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--at`` to a command, which receives the time as ``when``: seconds since 1970, or None."""
    text = f"Show the history of this node at a time: {FORMS}."
    return click.option("--at", "when", type=Past(), metavar="TIME", help=text)(command)


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--output`` and ``--force`` to a command that writes a recording."""
    text = f"Output file; its suffix selects {' or '.join(FORMATS)}."
    kind = click.Path(dir_okay=False)
    force = click.option("--force", is_flag=True, help="Replace FILE if it exists.")(command)
    return click.option("-o", "--output", required=True, metavar="FILE", type=kind, help=text)(force)


@contextmanager
def recording_errors(output: str) -> Iterator[None]:
    """Convert the errors of a recording's file into those of the options of `recording_options`."""
    try:
        yield
    except RecordingError as error:
        raise FailedError(f"--output: {error}", INVALID) from error
    except FileExistsError as error:
        raise FailedError(f"{error.filename} exists; choose another name or use --force") from error
    except OSError as error:
        raise FailedError(f"cannot write {output}: {error.strerror}") from error


def refuse_with_at(when: float | None, **others: object) -> None:
    """Refuse options of the present beside ``--at``.

    Raises:
        UsageError: one of them is given; its name is that of the option.
    """
    given = [f"--{name}" for name, value in others.items() if value]
    if when is not None and given:
        raise click.UsageError(f"--at cannot be combined with {', '.join(given)}.")
