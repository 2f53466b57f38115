"""`diagnose --apply`: do the first remedy that `limit` can do, after a question, and measure what it changed."""

import shlex
import sys
from collections.abc import Sequence
from errno import EPERM

import click

from resctrl_hooks.core.cli.errors import FailedError
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.tables import duration
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli.limit_options import parsed, selected_pods
from resctrl_hooks.observe.cli.limit_text import apply_all, in_words, undo
from resctrl_hooks.observe.limits.limiter import FOREVER
from resctrl_hooks.observe.limits.permission import is_owner
from resctrl_hooks.observe.limits.planner import Planner
from resctrl_hooks.observe.slowdown.diagnosis import Applied, Diagnosis
from resctrl_hooks.observe.slowdown.session import Session

_BETTER = 0.95
"""A ratio that falls to at most this part of the one before is better."""


def check_apply(context: Context, pods: Sequence[str], *, yes: bool) -> None:
    """Check the call before anything is sampled.

    Raises:
        UsageError: not one pod is given, or there is no terminal for the question.
        HookError: the user is not root.
    """
    if len(pods) != 1:
        raise click.UsageError("--apply needs one POD.")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("--apply asks before it limits a pod: use a terminal, or --yes.")
    if not is_owner(context.settings):
        raise HookError("cannot limit pods", errno=EPERM)


class Chosen:
    """The first remedy of a diagnosis that `limit` can do, planned.

    Args:
        context: the node.
        found: the diagnosis.
        seconds: until the limit's end.
        to_stdout: whether lines are the output; else they go to stderr.

    Raises:
        FailedError: the pod is not slowed, or no remedy can be done so.
        HookError: the pods of the first one cannot be limited so.
    """

    def __init__(self, context: Context, found: Diagnosis, seconds: float, *, to_stdout: bool) -> None:
        self._found = found
        self._seconds = seconds
        self._err = not to_stdout
        if found.verdict != "slowed":
            raise FailedError(f"nothing is limited: {found.name} is {found.verdict}{_why(found)}")
        command = next((one.command for one in found.remedies if one.command), "")
        if not command:
            raise FailedError(f"nothing is limited: no remedy of {found.name} is a limit of pods that is permitted")
        words = [*shlex.split(command), "--for", _time(seconds), "--reason", f"slows {found.name}"]
        self._command = shlex.join(words)
        self._context = context
        options, request, _, self._reason = parsed(words[2:])
        self._planned = Planner(context).plan_all(selected_pods(context, options), request)

    def apply(self, *, yes: bool) -> None:
        """Show what is done, ask unless ``yes``, and do it.

        Raises:
            Abort: the answer is no.
            FailedError: the kernel refuses, or another limit has changed a value. The other pods are limited.
        """
        self._print(with_config(f"apply: `{self._command}`"))
        for one in self._planned:
            self._print(f"  {in_words(one, self._seconds, done=False)}")
        if not yes:
            names = ", ".join(one.pod.name for one in self._planned)
            click.confirm(f"Limit {names}?", abort=True, err=self._err)
        apply_all(self._context, self._planned, self._seconds, self._reason, self._print)

    def followed(self, session: Session, seconds: float) -> Diagnosis:
        """Sample again, print the ratio before and after, and return the diagnosis with both.

        Raises:
            HookError: resctrl is gone.
        """
        before = self._found
        self._print(f"sampling again for {duration(seconds)} …")
        session.sample(seconds, [before.key])
        (after,) = session.diagnoses([before.key])
        self._print(f"{before.name}: {_ratio(before)} before, {_ratio(after)} now")
        if after.ratio is not None and before.ratio is not None and after.ratio > _BETTER * before.ratio:
            self._print(with_config(f"the limit has not helped so far; {undo(self._planned)} ends it"))
        if after.verdict == "slowed" and (more := next((one.command for one in after.remedies if one.command), "")):
            self._print(with_config(f"helps, too: `{more}`"))
        done = Applied(
            command=self._command,
            seconds=None if self._seconds >= FOREVER else self._seconds,
            ratio_after=after.ratio,
            waits_after=after.waits,
        )
        return before.model_copy(update={"applied": done})

    def _print(self, text: str) -> None:
        click.echo(text, err=self._err)


def _time(seconds: float) -> str:
    """Return a value of `--for`."""
    if seconds >= FOREVER:
        return "forever"
    return f"{seconds / 60:g}m" if seconds % 60 == 0 else f"{seconds:g}s"


def _why(found: Diagnosis) -> str:
    return f" ({found.reason})" if found.reason else ""


def _ratio(found: Diagnosis) -> str:
    if found.ratio is not None:
        return f"{found.ratio:.2f} times"
    return f"{found.waits:.2f} times by its waits{_why(found)}"
