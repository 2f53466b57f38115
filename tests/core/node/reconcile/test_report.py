"""A reconcile's report: all events as a line, a table and a document, with the names of pods and containers."""

import json
from typing import Any

import pytest
from golden import Golden

from resctrl_hooks.core.node.errors import NoRMIDsError, RMIDsBusyError
from resctrl_hooks.core.node.reconcile.report import Report

KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
ID = "c" * 64
NAMES: Any = {"namespace": "shop", "pod": "web-0", "container": "nginx"}
DONE = (
    "adopted", "moved", "released", "cleaned", "claimed", "placed", "applied memory", "applied blockio", "repaired",
    "orphan", "handover", "tidied", "assigned", "unassigned",
)  # fmt: skip
"""Kinds of events that count as a change."""
STATES: dict[str, tuple[bool, bool]] = {
    "waiting": (False, True),
    "queued": (True, True),
    "failed": (False, False),
    "problem": (False, False),
    "left": (False, False),
    "uncounted": (True, True),
    "unmet": (True, True),
    "foreign": (True, True),
}
"""The other kinds: whether such a report is ok, and whether it is well."""


@pytest.mark.parametrize("dry_run", [False, True])
def test_report_of_all_events(golden: Golden, monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.25)
    report = Report(dry_run=dry_run)
    report.learn(KEY, NAMES, ID)
    nameless: Any = {"namespace": None}
    report.learn("nameless", nameless, "")
    for kind in (*DONE, *STATES):
        report.add(kind, "nameless", KEY, why="EIO" if kind in STATES else "")
    for what in (ID, ID[:12], f"{ID[:12]} memtierd"):
        report.add("failed", what, why="ENOMEM")
    report.add("failed", KEY, why="EBUSY")
    report.add("claimed", KEY)  # counts for each of its groups
    report.count("moved", 3)
    report.count("left", 0)
    document: dict[str, Any] = {**report.as_document(), "host": "node"}
    golden(report.as_line(), "line")
    golden(report.as_text(), "text")
    items = document.pop("items")
    golden("\n".join(map(json.dumps, (document, *items))), "document")
    assert report.applied == {"memory": ["nameless", KEY], "blockio": ["nameless", KEY]}
    assert Report().as_line() == ""
    assert not Report().changed


@pytest.mark.parametrize("kind", [*DONE, *STATES])
def test_only_changes_are_changes_and_only_problems_are_problems(kind: str) -> None:
    report = Report()
    report.add(kind, KEY)
    assert report.changed == (kind in DONE)
    assert (report.ok, report.well) == STATES.get(kind, (True, True))


@pytest.mark.parametrize("shared, kind", [(False, "waiting"), (True, "queued")])
def test_pods_wait_for_limbo_only_if_all_do_and_are_queued_under_sharing_rules(shared: bool, kind: str) -> None:
    waits = Report(shared=shared)
    seen = [waits.only_limbo]
    for key, limbo in (("a", True), ("b", False), ("c", True)):
        waits.wait(key, RMIDsBusyError("in limbo") if limbo else NoRMIDsError("none left"))
        seen.append(waits.only_limbo)
    assert seen == [True, True, False, False]
    assert [*waits.events[kind]] == ["a", "b", "c"]
    assert waits.ok is shared
    waits.forget_waiting()
    assert (waits.events["waiting"], waits.events["queued"], waits.only_limbo) == ({}, {}, True)
