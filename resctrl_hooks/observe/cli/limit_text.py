"""Limits in words: what is done, and the command that ends it."""

from collections.abc import Callable, Sequence

from resctrl_hooks.core.cli.errors import FailedError
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.cli.tables import duration
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.limits.limiter import FOREVER, Limiter
from resctrl_hooks.observe.limits.planner import Planned, refused_lines


def in_words(one: Planned, seconds: float, *, done: bool) -> str:
    """Return a limit with each value before and after."""
    end = "until its end" if seconds >= FOREVER else f"for {duration(seconds)}"
    values = ", ".join(dict.fromkeys(value.text for value in one.shown))
    note = f" ({one.note})" if one.note else ""
    return f"{one.pod.name} {'' if done else 'would be '}limited {end}: {values}{note}"


def apply_all(
    context: Context, found: Sequence[Planned], seconds: float, reason: str, output: Callable[[str], None]
) -> None:
    """Limit pods; print that, and the command that ends it, also after an interrupt.

    Raises:
        FailedError: some could not be limited; the others are.
    """
    limiter = Limiter(context)
    done: list[Planned] = []
    refused = []
    try:
        for one in found:
            try:
                limiter.limit(one.pod, one.plan, seconds, reason)
                done.append(one)
                output(in_words(one, seconds, done=True))
            except HookError as error:
                refused.append((one.pod, error))
    finally:
        if done:
            output(with_config(f"undo: {undo(done)}"))
    if refused:
        raise FailedError("\n".join(refused_lines(refused)))


def undo(found: Sequence[Planned]) -> str:
    """Return the command that ends limits."""
    return f"`resctrl-hook unlimit {' '.join(one.pod.name for one in found)}`"
