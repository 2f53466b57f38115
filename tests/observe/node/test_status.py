"""Status files of the guard and of slowdown that cannot be written."""

from pathlib import Path

from core.node.watch.test_status import NO_WRITES, Lines, check_messages

from resctrl_hooks.observe.node.guard.status import Status as GuardStatus
from resctrl_hooks.observe.node.slowdown.status import Status as SlowdownStatus


@NO_WRITES
def test_guards_status_that_cannot_be_written_is_logged_once_and_so_is_its_end(tmp_path: Path, number: int) -> None:
    lines = Lines()
    status = GuardStatus(str(tmp_path), 1, 1, "act", "%", lines.log)
    check_messages(lines, tmp_path / "guard.json", status.write, number)


@NO_WRITES
def test_status_of_slowdown_that_cannot_be_written_is_logged_once_and_so_is_its_end(
    tmp_path: Path, number: int
) -> None:
    lines, path = Lines(), tmp_path / "slowdown.json"
    status = SlowdownStatus(str(path), lines.log)
    check_messages(lines, path, lambda: status.write({}, {}), number)
