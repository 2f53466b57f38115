"""Processes of this project, in one process of the tests."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from resctrl_hooks.core.node.resctrl import totals_file
from resctrl_hooks.core.node.resctrl.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = TypeVar("Kind", bound=Monitor)


class Program(Generic[Kind]):
    """A process with a monitor and with what it saved last."""

    def __init__(self, monitor: Kind) -> None:
        self.monitor = monitor
        self._saved: dict[Any, Any] = {}

    @contextmanager
    def running(self, seam: Any) -> Iterator[Kind]:
        """Run code as this process: nothing of another process is in its memory."""
        others = dict(totals_file._SAVED)
        before, self.monitor.resctrl.fs = self.monitor.resctrl.fs, seam
        totals_file._SAVED.clear()
        totals_file._SAVED.update(self._saved)
        try:
            yield self.monitor
        finally:
            self._saved = dict(totals_file._SAVED)
            totals_file._SAVED.clear()
            totals_file._SAVED.update(others)
            self.monitor.resctrl.fs = before
