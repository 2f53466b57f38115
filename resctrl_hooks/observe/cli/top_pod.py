"""The page of a pod in `top`: what `diagnose` and `show` print, with each sample again; and limits from there."""

import contextlib
import io
import shlex
import time
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.show import details_of
from resctrl_hooks.core.cli.show_text import print_pod
from resctrl_hooks.core.cli.tables import SafeConsole
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.resctrl.layouts import MB
from resctrl_hooks.observe.cli.diagnosis_text import print_diagnosis
from resctrl_hooks.observe.cli.limit_options import parsed, selected_pods
from resctrl_hooks.observe.cli.limit_text import apply_all, in_words
from resctrl_hooks.observe.cli.limits import limits_of
from resctrl_hooks.observe.limits.limiter import Limiter
from resctrl_hooks.observe.limits.permission import is_owner
from resctrl_hooks.observe.limits.planner import Planner
from resctrl_hooks.observe.limits.request import LimitError
from resctrl_hooks.observe.slowdown.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resctrl_hooks.core.inventory.pod_details import PodDetails
    from resctrl_hooks.observe.slowdown.diagnosis import Diagnosis

_WINDOWS = 30
"""The last samples that a diagnosis is of: a minute, at the usual interval."""
_DETAILS = 5.0  # seconds between two reads of what `show` prints, which asks the journal


class PodPage:
    """A pod's page. It samples the pod as `diagnose` does until it is closed.

    Args:
        context: the node.
        name: the pod's key, or the name of a foreign group.

    Raises:
        HookError, ClickException: there is no such pod, or the state directory is unusable.
    """

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self._options = ListOptions(pods=(name,), sort="name")
        self._keys = [*self._options.targets(context)[0]]
        self._details: Sequence[PodDetails] = ()
        self._read_at = 0.0
        self._found: Sequence[Diagnosis] = ()
        self._remark = "measuring …" if self._keys else ""
        self._planned: Callable[[], str] = str
        """Does what was planned last; returns the result in words."""
        self._session: Session | None = None
        self._read()
        if self._keys:
            self._session = Session(context, self._note, learns=False)  # a page can stay open for hours
            try:
                self._session.begin(self._keys)
            except BaseException:
                self.close()
                raise

    @property
    def proposal(self) -> str:
        """The proposed arguments of `limit`: what helps this pod, or a limit of it; empty for a foreign group."""
        if not self._keys:
            return ""
        helps = (help_.command for one in self._found for help_ in one.remedies if help_.command)
        if command := next(helps, ""):
            return command.partition(" limit ")[2]
        resctrl = self._context.monitor.resctrl
        value = "--mb 50" if resctrl.fs.is_folder(f"{resctrl.root}/info/{MB}") else "--cpu 50%"
        return f"{value} --for 30m"

    def close(self) -> None:
        """End the sampling."""
        session, self._session = self._session, None
        if session is not None:
            session.__exit__()

    def step(self) -> None:
        """Sample the pod."""
        try:
            if self._session is not None:
                self._session.step(self._keys, _WINDOWS)
                self._found, self._remark = self._session.diagnoses(self._keys), ""
            self._read()
        except (HookError, click.ClickException) as error:
            self._note(error.format_message() if isinstance(error, click.ClickException) else str(error))

    def _note(self, text: str) -> None:
        self._remark = text

    def _read(self) -> None:
        now = time.monotonic()
        if not self._details or now - self._read_at >= _DETAILS:
            self._details = details_of(self._context, self._options, {})
            self._read_at = time.monotonic()

    def lines(self, width: int) -> list[Text]:
        """Return the page in lines of at most a width."""
        out = SafeConsole(file=io.StringIO(), width=width, highlight=False, force_terminal=True)
        if self._remark:
            out.print(self._remark, markup=False)
        for one in self._found:
            print_diagnosis(one, out)
        for pod in self._details:
            out.print()
            print_pod(pod, headers=True, out=out)
        assert isinstance(out.file, io.StringIO)
        return _wrapped(out.file.getvalue(), out, width)

    def plan(self, text: str) -> list[str]:
        """Return a limit in words, from the options and pods of `limit`; without pods, of this pod.

        Raises:
            UsageError: the options are wrong.
            HookError: the pods cannot be limited so.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        options, request, seconds, reason = parsed(words)
        if not options.filtered:
            options = self._options
        found = Planner(self._context).plan_all(selected_pods(self._context, options), request)

        def apply() -> str:
            lines = Limiter(self._context).end_over()
            try:
                apply_all(self._context, found, seconds, reason or "from top", lines.append)
            except click.ClickException as error:
                lines.append(error.format_message())
            return "; ".join(lines)

        self._planned = apply
        return [in_words(one, seconds, done=False) for one in found]

    def plan_end(self) -> list[str]:
        """Return in words which limits of this pod would end.

        Raises:
            LimitError: it has none.
        """
        found = [one for one in limits_of(self._context) if one.key in self._keys]
        if not found:
            raise LimitError("the pod is not limited")

        def apply() -> str:
            result = Limiter(self._context).end(found)
            if result.failed:
                raise HookError(f"cannot restore {'; '.join(result.failed)}: reconcile tries again")
            foreign = [f"not restored: {one}" for one in result.foreign]
            return "; ".join([*(f"restored {one}" for one in result.done), *foreign]) or "nothing to restore"

        self._planned = apply
        return [f"{one.owner} would end: {', '.join(value.text for value in one.values)}" for one in found]

    def apply(self) -> str:
        """Do what was planned; return the result in words.

        Raises:
            HookError: the kernel refuses a value, or the user is not root.
        """
        if not is_owner(self._context.settings):
            raise HookError("root is required: cannot limit pods")
        self._read_at = 0.0
        try:
            return self._planned()
        finally:
            if self._session is not None:
                with contextlib.suppress(HookError):  # the next sample reports it
                    self._session.step(self._keys, 0)  # the next verdict is of the time after


def _wrapped(text: str, out: Console, width: int) -> list[Text]:
    """Return printed text in lines of at most a width, with its styles; what continues a line is indented."""
    lines: list[Text] = []
    for line in Text.from_ansi(text.rstrip("\n")).split("\n", allow_blank=True):
        indent = len(line.plain) - len(line.plain.lstrip()) + 2
        if len(line) <= width or indent >= width // 2:
            lines += line.wrap(out, width) if line.plain else [Text()]
        else:
            first, *rest = line.wrap(out, width - indent)
            lines += [first, *(Text(" " * indent).append(one) for one in rest)]
    return lines
