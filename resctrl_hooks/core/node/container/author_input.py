"""The gate for the texts of a pod's author: annotations, labels, variables and device names.

It bounds size and characters, and a `Budget` bounds the work that follows from a text. A wish that fails here is
dropped: the container is treated as one without the wish, and `failure_policies.report_dropped` reports it once.
"""

from ..errors import HookError
from ..names import LONGEST_ANNOTATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Wishing(Protocol):
        """A container with its dropped wishes, a `Workload`."""

        dropped: "dict[str, str] | None"


_MOST_WORK = 500_000
_MOST_NAMED = 8
_LONGEST_NAME = 128
_PLAIN_SPACE = "\n\t\r"


class WishError(HookError):
    """A text of a pod's author is too large, not text, contradictory, or too much work."""

    reason = "annotation"


class Budget:
    """The work for one wish, in steps of about 40 nanoseconds: characters compared, values tested, bytes parsed."""

    __slots__ = ("_left",)

    def __init__(self, steps: int = _MOST_WORK) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Count some steps before they are done.

        Raises:
            WishError: too few are left.
        """
        self._left -= steps
        if self._left < 0:
            raise WishError("it needs too much work", hint="use fewer or simpler rules and patterns")


def problem_of(text: str, longest: int = LONGEST_ANNOTATION) -> str:
    """Return why a text is unacceptable; empty if it is not."""
    if len(text) > longest:
        return f"it has {len(text)} characters, at most {longest} are read"
    if text.isprintable() or all(one.isprintable() or one in _PLAIN_SPACE for one in text):
        return ""
    return "it has characters that are not printable"


def accepts(workload: "Wishing", name: str, text: str, longest: int = LONGEST_ANNOTATION) -> bool:
    """Return whether a text may be used; otherwise its wish is dropped."""
    problem = problem_of(text, longest)
    if problem:
        drop(workload, f"annotation {name[:_LONGEST_NAME]}", problem)
    return not problem


def drop(workload: "Wishing", what: str, why: str) -> None:
    """Note that a wish is dropped, and why; ``what`` names the annotation or the variable."""
    if workload.dropped is None:
        workload.dropped = {}
    if len(workload.dropped) < _MOST_NAMED:
        workload.dropped.setdefault(what, why)


def dropped(workload: "Wishing") -> "WishError | None":
    """Return the error about the wishes that were dropped since the last call; None for none."""
    fresh = [f"{what} is ignored: {why}" for what, why in (workload.dropped or {}).items() if why]
    workload.dropped = dict.fromkeys(workload.dropped or (), "")
    return WishError("; ".join(fresh)) if fresh else None


def acceptable(labels: "dict[str, str]") -> "dict[str, str]":
    """Return those of a pod's labels that are short text, as all of Kubernetes are; a runtime adds other entries."""
    return {name: value for name, value in labels.items() if not problem_of(name) and not problem_of(value)}
