"""`resctrl-hook limit`: limit running pods at once, for a time."""

import re
from collections.abc import Callable, Mapping, Sequence
from errno import ENOSPC, EPERM, EROFS
from typing import Any, NamedTuple

import click

from resctrl_hooks.core.cli.errors import FailedError
from resctrl_hooks.core.cli.list_options import ListOptions, select_options
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.params import Duration, Number
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.tables import duration
from resctrl_hooks.core.inventory.gather import gather, name_podmans
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, ResctrlError
from resctrl_hooks.core.node.reconcile.note import note_running
from resctrl_hooks.observe.limits.limiter import FOREVER, Limiter, Plan
from resctrl_hooks.observe.limits.permission import is_owner
from resctrl_hooks.observe.limits.request import LimitError, Rates, Request, bytes_of

DEFAULT = 1800.0
"""Seconds until a limit's end."""
_FOREVER = "forever"
_REMEDIES = {
    ENOSPC: "; free space on its file system",
    EROFS: "; it is read-only here: run the command on the host, outside of a container",
}
_COUNT = re.compile(r"[0-9]{1,9}")
_MASK = re.compile(r"(?:[0-9]{1,3}-)?[1-9][0-9]{0,2}%|(?:0[xX])?[0-9a-fA-F]{1,16}")


class LimitTime(Duration):
    """The time until a limit's end: a duration, or ``forever``, the pod's end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        return FOREVER if value in (_FOREVER, FOREVER) else super().convert(value, param, ctx)


def _per_cent(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    number = value.removesuffix("%")
    if number == value or not _COUNT.fullmatch(number) or not int(number):
        raise click.BadParameter(f"{value!r} is not a number of per cent such as 50%.")
    return float(number)


def _rates(number: Callable[[str], int | None], example: str) -> Callable[..., Rates]:
    """Return a callback for ``[DISK=]NUMBER``, given once or more."""

    def parsed(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Rates:
        found = []
        for value in values:
            name, _equals, text = value.rpartition("=")
            rate = number(text)
            if rate is None:
                raise click.BadParameter(f"{value!r} is not {example}, or DISK= and that.")
            found.append((name, rate))
        return tuple(found)

    return parsed


def _operations(text: str) -> int | None:
    return int(text) or None if _COUNT.fullmatch(text) else None


def _mask(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _MASK.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not a part of the cache such as 20% or 00f.")
    return value


@click.command()
@select_options
@click.option("--class", "rdt_class", metavar="CLASS", help="Move it to this RDT class.")
@click.option("--mb", metavar="VALUE", help="Most memory bandwidth, as in `rdt.classes`: 30, 2GBps.")
@click.option(
    "--l3", callback=_mask, metavar="VALUE", help="Its part of the L3 cache, as in `rdt.classes`: 20%, 0-20%, 00f."
)
@click.option("--cpu", callback=_per_cent, metavar="PERCENT", help="Most CPU time, in per cent of one CPU: 50%.")
@click.option("--cpu-weight", type=Number(1, 10_000), help="Its share of busy CPUs; 100 is usual.")
@click.option(
    "--io",
    multiple=True,
    callback=_rates(bytes_of, "a number of bytes such as 20M"),
    metavar="[DISK=]BYTES",
    help="Most bytes per second, of reads and of writes of each disk, or of a disk (/dev/sda, 8:0): 20M.",
)
@click.option(
    "--iops",
    multiple=True,
    callback=_rates(_operations, "a number of operations such as 500"),
    metavar="[DISK=]NUMBER",
    help="Most operations per second, of reads and of writes of each disk, or of a disk.",
)
@click.option("--io-weight", type=Number(1, 10_000), help="Its share of busy disks; 100 is usual.")
@click.option(
    "--for",
    "seconds",
    type=LimitTime(1.0),
    default=DEFAULT,
    help="Time until its end; default 30m. forever: the pod's end.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why, for the log and for `limits`.")
@click.option("--dry-run", is_flag=True, help="Print the values without writing them.")
@click.pass_obj
def command(config: str, /, *, options: ListOptions, seconds: float, reason: str, dry_run: bool, **given: Any) -> None:
    """Limit running pods at once, for a time.

    Every value is recorded before it is written. It is restored at the limit's end, at the pod's end, by `unlimit`, by
    an uninstallation, and if this command is killed. A value that another program has changed since stays. Reconcile
    and the sampling process restore it, so the end can come a minute late.

    With --mb and --l3, a pod moves to an RDT class with these values and else those of its own class; without such a
    class, one is created for that time. The pod's counts go on. What starts or enters later is moved, too.

    Only root can limit pods, and only those that match `slowdown.limit`. Further limits of a pod are added. A limit
    only lowers values. A value that another limit or an experiment has changed is refused.
    """
    options.require_pods()
    request = _request(given)
    context = open_node(config)
    if not dry_run:
        if not is_owner(context.settings):
            raise HookError("cannot limit pods", errno=EPERM)
        Limiter(context).end_over()
    note_running(context)
    found = planned(context, options, request, seconds, reason)
    if dry_run:
        for one in found:
            click.echo(in_words(context, one, done=False))
        return
    apply_all(context, found, click.echo)


class Planned(NamedTuple):
    """A limit of a pod that was checked."""

    pod: Pod
    plan: Plan
    seconds: float
    reason: str


def _request(given: Mapping[str, Any]) -> Request:
    request = Request(**given)
    if request.is_empty:
        raise click.UsageError("no limit given, such as --cpu 50%.")
    if request.rdt_class and (request.mb or request.l3):
        raise click.UsageError("--class and --mb or --l3 cannot be combined.")
    return request


def parsed(words: Sequence[str]) -> tuple[ListOptions, Request, float, str]:
    """Return the pods, the limit, its seconds and the reason in arguments of this command.

    Raises:
        UsageError: they are wrong.
    """
    if {"-h", "--help"} & {*words}:
        raise click.UsageError("`resctrl-hook limit --help` lists the options.")
    given = command.make_context("limit", [*words]).params
    options = ListOptions(given.pop("pods"), namespace=given.pop("namespace"), selector=given.pop("selector"))
    seconds, reason, _ = given.pop("seconds"), given.pop("reason"), given.pop("dry_run")
    return options, _request(given), seconds, reason


def planned(context: Context, options: ListOptions, request: Request, seconds: float, reason: str) -> list[Planned]:
    """Return the limits of the selected pods, after all of them were checked. Read-only.

    Raises:
        LimitError: no running pod matches, or one may not be limited.
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
    limiter, request = Limiter(context), request.on_disks(context.settings.sys_path)
    planned_, refused = [], []
    for pod in pods:
        try:
            planned_.append(Planned(pod, limiter.plan(pod, request), seconds, reason))
        except HookError as error:
            refused.append(_refused(pod, error))
    if refused:
        raise LimitError("\n".join([*refused, *(["no pod was limited"] if len(pods) > 1 else [])]))
    return planned_


def _refused(pod: Pod, error: HookError) -> str:
    remedy = _REMEDIES.get(error.errno, "") if not isinstance(error, ResctrlError) else ""
    return f"cannot limit {pod.name}: {str(error).replace(f'pod {pod.key}', 'the pod')}{remedy}"


def in_words(context: Context, one: Planned, *, done: bool) -> str:
    """Return a limit with each value before and after."""
    end = "until its end" if one.seconds >= FOREVER else f"for {duration(one.seconds)}"
    values = ", ".join(value.text for value in Limiter(context).shown(one.plan))
    return f"{one.pod.name} {'' if done else 'would be '}limited {end}: {values}"


def apply(context: Context, one: Planned) -> str:
    """Limit a pod, and return that in words.

    Raises:
        HookError: as `Limiter.limit`.
    """
    text = in_words(context, one, done=True)
    Limiter(context).limit(one.pod, one.plan, one.seconds, one.reason)
    return text


def apply_all(context: Context, found: Sequence[Planned], output: Callable[[str], None]) -> None:
    """Limit pods; print that, and the command that ends it, also after an interrupt.

    Raises:
        FailedError: some could not be limited; the others are.
    """
    done, refused = [], []
    try:
        for one in found:
            try:
                text = apply(context, one)
                done.append(one)
                output(text)
            except HookError as error:
                refused.append(_refused(one.pod, error))
    finally:
        if done:
            output(with_config(f"undo: {undo(done)}"))
    if refused:
        raise FailedError("\n".join(refused))


def undo(found: Sequence[Planned]) -> str:
    """Return the command that ends limits."""
    return f"`resctrl-hook unlimit {' '.join(one.pod.name for one in found)}`"
