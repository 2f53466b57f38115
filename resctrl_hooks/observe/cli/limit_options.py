"""The options of `limit`, also for other commands that read or print a call of it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from resctrl_hooks.core.cli.list_options import ListOptions, select_options
from resctrl_hooks.core.cli.params import Duration, Number
from resctrl_hooks.core.inventory.gather import gather, name_podmans
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.limits.limiter import FOREVER
from resctrl_hooks.observe.limits.request import LimitError, Request
from resctrl_hooks.observe.limits.words import mask, of_bytes, of_operations, per_cent

DEFAULT = 1800.0
"""Seconds until a limit's end."""
_FOREVER = "forever"


class LimitTime(Duration):
    """The time until a limit's end: a duration, or ``forever``, the pod's end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        return FOREVER if value in (_FOREVER, FOREVER) else super().convert(value, param, ctx)


def _read(reader: Callable[[str], Any]) -> Callable[..., Any]:
    """Return a callback that reads an option's text, or each of its texts."""

    def read(_: click.Context, __: click.Parameter, value: str | tuple[str, ...] | None) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(map(reader, value))
            return None if value is None else reader(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


_OPTIONS = (
    select_options,
    click.option("--class", "rdt_class", metavar="CLASS", help="Move it to this RDT class."),
    click.option("--mb", metavar="VALUE", help="Most memory bandwidth, as in `rdt.classes`: 30, 2GBps."),
    click.option(
        "--l3",
        callback=_read(mask),
        metavar="VALUE",
        help="Its part of the L3 cache, as in `rdt.classes`: 20%, 0-20%, 00f.",
    ),
    click.option(
        "--cpu", callback=_read(per_cent), metavar="PERCENT", help="Most CPU time, in per cent of one CPU: 50%."
    ),
    click.option("--cpu-weight", type=Number(1, 10_000), help="Its share of busy CPUs; 100 is usual."),
    click.option(
        "--io",
        multiple=True,
        callback=_read(of_bytes),
        metavar="[DISK=]BYTES",
        help="Most bytes per second, of reads and of writes of each disk, or of a disk (/dev/sda, 8:0): 20M.",
    ),
    click.option(
        "--iops",
        multiple=True,
        callback=_read(of_operations),
        metavar="[DISK=]NUMBER",
        help="Most operations per second, of reads and of writes of each disk, or of a disk.",
    ),
    click.option("--io-weight", type=Number(1, 10_000), help="Its share of busy disks; 100 is usual."),
    click.option(
        "--for",
        "seconds",
        type=LimitTime(1.0),
        default=DEFAULT,
        help="Time until its end; default 30m. forever: the pod's end.",
    ),
    click.option("--reason", default="", metavar="TEXT", help="Why, for the log and for `limits`."),
    click.option("--dry-run", is_flag=True, help="Print the values without writing them."),
)
"""In the order of the help."""


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options and the argument of `limit`."""
    return functools.reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


@click.command("limit")
@limit_options
def _parser(**_: Any) -> None:
    """Parse a call."""


def parsed(words: Sequence[str]) -> tuple[ListOptions, Request, float, str]:
    """Return the pods, the limit, its seconds and the reason in arguments of `limit`.

    Raises:
        UsageError: they are wrong.
    """
    if {"-h", "--help"} & {*words}:
        raise click.UsageError("`resctrl-hook limit --help` lists the options.")
    given = _parser.make_context("limit", [*words]).params
    options = ListOptions(given.pop("pods"), namespace=given.pop("namespace"), selector=given.pop("selector"))
    seconds, reason, _ = given.pop("seconds"), given.pop("reason"), given.pop("dry_run")
    return options, request_of(given), seconds, reason


def request_of(given: Mapping[str, Any]) -> Request:
    """Return what the options of values request.

    Raises:
        UsageError: nothing, or a contradiction.
    """
    request = Request(**given)
    if request.is_empty:
        raise click.UsageError("no limit given, such as --cpu 50%.")
    if request.rdt_class and (request.mb or request.l3):
        raise click.UsageError("--class and --mb or --l3 cannot be combined.")
    return request


def selected_pods(context: Context, options: ListOptions) -> list[Pod]:
    """Return the selected running pods.

    Raises:
        LimitError: no selected pod runs, or a named pod does not run.
    """
    found = gather(context).pods
    name_podmans(found)
    pods = [pod for pod in options.chosen(context, found) if pod.living]
    named, _ = options.targets(context)
    left = [pod.name for pod in found if pod.key in named and pod not in pods]
    if pods and left:
        raise LimitError(f"{', '.join(left)}: not running, or not selected by -n and -l", hint="no pod is limited")
    if not pods:
        hint = "labels are those of Kubernetes pods; " if options.selector else ""
        raise LimitError("no running pod matches", hint=f"{hint}`resctrl-hook list` shows all")
    return pods
