"""Records of observe check each of their fields; status files that cannot be written are logged once."""

from pathlib import Path
from typing import Any

import pytest
from core.node.watch.test_status import NO_WRITES, Lines, check_messages
from hosts.record_types import check_fields

from resctrl_hooks.core.node.shapes import fits
from resctrl_hooks.observe.metrics.class_totals import ClassesRecord, ClassRecord
from resctrl_hooks.observe.node.guard.lease import LeaseRecord
from resctrl_hooks.observe.node.guard.status import Status as GuardStatus
from resctrl_hooks.observe.node.guard.sufferers import PressedRecord, SlowdownRecord, VerdictRecord
from resctrl_hooks.observe.node.slowdown.status import Status as SlowdownStatus

VERDICT = {
    "verdict": "slowed",
    "ratio": 1.5,
    "reason": "",
    "method": "perf",
    "ratioLow": None,
    "ratioHigh": 2.0,
    "load": None,
    "slowedSeconds": {"memory": 1.5},
    "lostSeconds": {"memory": 0.5},
    "counted": {"perf": [1.5, 2.5]},
}
PRESSED = {"ratio": 1.5, "since": 1.5, "until": 2.5, "classes": ["gold"], "domains": [0]}
LOST = {"namespace": "shop", "culpritNamespace": "batch", "seconds": 1.5}
CLASS = {
    "identity": "1",
    "parts": {"2": {"path": 1}},
    "total": {"path": 1},
    "ungrouped": {"path": 1},
    "rest": {"path": 1},
}


@pytest.mark.parametrize(
    "kind, value, elsewhere",
    [
        (VerdictRecord, VERDICT, []),
        (PressedRecord, PRESSED, []),
        (
            SlowdownRecord,
            {"time": 1.5, "uptime": 1.5, "pods": {"key": VERDICT}, "pressed": {"key": PRESSED}, "lost": [LOST]},
            [],
        ),
        (
            LeaseRecord,
            {
                "pid": 1,
                "start": 1,
                "boot": "boot",
                "declared": {"gold": {"0": 100}},
                "ours": {"gold": {"0": [100, 90]}},
                "owner": "the guard",
                "deadline": 1.5,
            },
            [],
        ),
        (ClassRecord, CLASS, []),
        (
            ClassesRecord,
            {
                "classes": {"gold": 1},
                "removed": {"path": 1},
                "when": 1.5,
                "saved": 1.5,
                "mount": ["1"],
                "domains": {"total": {"0": 1}, "seen": {"gold": {"path": 1}}},
                "unseen": {"2": {"path": 1}},
                "packages": {"total": {"0": 1}, "last": {"0": 1}},
            },
            ["classes.gold"],  # a class with damaged data is forgotten
        ),
    ],
)
def test_record_checks_each_of_its_fields(kind: Any, value: dict[str, Any], elsewhere: list[str]) -> None:
    check_fields(kind, value, *elsewhere)


@pytest.mark.parametrize("domain", ["", "x", "-1", "1.0", "1234567890", "\u0663"])
def test_lease_of_another_domain_than_a_number_is_damaged(domain: str) -> None:
    lease: dict[str, Any] = {"pid": 1, "start": 1, "boot": "b", "declared": {}, "ours": {}}
    assert fits(LeaseRecord, lease)
    assert not fits(LeaseRecord, {**lease, "declared": {"gold": {domain: 1}}})
    assert not fits(LeaseRecord, {**lease, "ours": {"gold": {domain: [1]}}})


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
