"""The ``log`` section: the target of the hooks' log lines."""

from typing import Literal

from resctrl_hooks.node.log import DEFAULTS

from .section import AbsolutePath, Remark, Section


class LogSection(Section):
    """Where the hooks' lines go. A warning is also one line on stderr, for the runtime's own log."""

    target: Literal["auto", "journal", "syslog", "file", "none"] = DEFAULTS["target"]
    """`auto` takes the first that is there of journal, syslog and `file`."""

    level: Literal["error", "warning", "notice", "info", "debug"] = DEFAULTS["level"]
    """The least important kind of line to keep."""

    file: AbsolutePath | None = None
    """The file for `target: file`, or for `auto` where there is neither journal nor syslog. At 8 MiB it starts anew."""

    journal_socket: AbsolutePath = DEFAULTS["journalSocket"]
    """journald's native socket."""

    syslog_socket: AbsolutePath = DEFAULTS["syslogSocket"]
    """The syslog socket."""

    def remarks(self) -> list[Remark]:
        """Return a remark for a file target without a file, which discards all lines."""
        if self.target == "file" and self.file is None:
            return [Remark(("target",), "the target is a file, but log.file names none, so nothing is logged")]
        return []
