"""The ``log`` section: the target of the hooks' log lines."""

from typing import Literal

from resctrl_hooks.core.node.log import DEFAULTS

from .section import AbsolutePath, Remark, Section


class LogSection(Section):
    """Destination of the hooks' log. Warnings are also printed on stderr."""

    target: Literal["auto", "journal", "syslog", "file", "none"] = DEFAULTS["target"]
    """`auto`: the first available of journal, syslog and `file`."""

    level: Literal["error", "warning", "notice", "info", "debug"] = DEFAULTS["level"]
    """The lowest level that is logged."""

    file: AbsolutePath | None = None
    """The file for `target: file`, or for `auto` without journal and syslog; at most 8 MiB."""

    journal_socket: AbsolutePath = DEFAULTS["journalSocket"]
    """journald's native socket."""

    syslog_socket: AbsolutePath = DEFAULTS["syslogSocket"]
    """The syslog socket."""

    def remarks(self) -> list[Remark]:
        """Return a remark for a file target without a file, which discards all lines."""
        if self.target == "file" and self.file is None:
            return [Remark(("target",), "log.target is file, but log.file is empty: nothing is logged")]
        return []
