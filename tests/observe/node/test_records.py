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
SLOWDOWN = {"time": 1.5, "uptime": 1.5, "pods": {"key": VERDICT}, "pressed": {"key": PRESSED}, "lost": [LOST]}
VALUES = {"declared": {"gold": {"0": 100}}, "ours": {"gold": {"0": [100, 90]}}}
LEASE = {"pid": 1, "start": 1, "boot": "boot", **VALUES, "owner": "the guard", "deadline": 1.5}
UNGROUPED = {"ungrouped": {"path": 1}, "rest": {"path": 1}}
CLASS = {"identity": "1", "parts": {"2": {"path": 1}}, "total": {"path": 1}, **UNGROUPED}
CLASSES = {
    "classes": {"gold": 1},
    "removed": {"path": 1},
    "when": 1.5,
    "saved": 1.5,
    "mount": ["1"],
    "domains": {"total": {"0": 1}, "seen": {"gold": {"path": 1}}},
    "unseen": {"2": {"path": 1}},
    "packages": {"total": {"0": 1}, "last": {"0": 1}},
}


@pytest.mark.parametrize(
    "kind, value",
    [(VerdictRecord, VERDICT), (PressedRecord, PRESSED), (SlowdownRecord, SLOWDOWN), (LeaseRecord, LEASE),
     (ClassRecord, CLASS), (ClassesRecord, CLASSES)],
)  # fmt: skip
def test_record_checks_each_of_its_fields(kind: Any, value: dict[str, Any]) -> None:
    elsewhere = ["classes.gold"] if kind is ClassesRecord else []  # a class with damaged data is forgotten
    check_fields(kind, value, *elsewhere)


@pytest.mark.parametrize("domain", ["", "x", "-1", "1.0", "1234567890", "\u0663"])
def test_lease_of_another_domain_than_a_number_is_damaged(domain: str) -> None:
    of_version_0_2 = {name: value for name, value in LEASE.items() if name not in ("owner", "deadline")}
    assert fits(LeaseRecord, of_version_0_2)
    assert not fits(LeaseRecord, {**LEASE, "declared": {"gold": {domain: 1}}})
    assert not fits(LeaseRecord, {**LEASE, "ours": {"gold": {domain: [1]}}})


@NO_WRITES
def test_status_that_cannot_be_written_is_logged_once_and_so_is_its_end(tmp_path: Path, number: int) -> None:
    lines = Lines()
    guard = GuardStatus(str(tmp_path), 1, 1, "act", "%", lines.log)
    check_messages(lines, tmp_path / "guard.json", guard.write, number)
    lines, path = Lines(), tmp_path / "slowdown.json"
    slowdown = SlowdownStatus(str(path), lines.log)
    check_messages(lines, path, lambda: slowdown.write({}, {}), number)
