"""The plugin's status file: its types, its shape, and damage."""

from pathlib import Path

from core.node.watch.test_status import NO_WRITES, Lines, check_each_field, check_messages
from hosts.record_types import check, check_fields

from resctrl_hooks.nri.node.status import NAME, EventRecord, NriRecord, Status, read_status


def served(folder: str) -> Status:
    status = Status(folder, "/run/nri.sock")
    status.connected("containerd", "2.1.9")
    status.served("StartContainer", 0.1, failed=True)
    status.dropped("it hung up")
    return status


def test_status_matches_its_type(tmp_path: Path) -> None:
    served(str(tmp_path))
    check(NriRecord, (tmp_path / NAME).read_bytes())


def test_record_checks_each_of_its_fields(tmp_path: Path) -> None:
    values = served(str(tmp_path)).values
    check_fields(NriRecord, dict(values))
    check_fields(EventRecord, values["events"]["StartContainer"])


def test_status_with_a_wrong_field_is_none(tmp_path: Path) -> None:
    check_each_field(tmp_path / NAME, dict(served(str(tmp_path)).values), read_status)


@NO_WRITES
def test_status_that_cannot_be_written_is_logged_once_and_so_is_its_end(tmp_path: Path, number: int) -> None:
    lines = Lines()
    status = Status(str(tmp_path), "/run/nri.sock", lines.log)
    check_messages(lines, tmp_path / NAME, status.write, number)
