"""Numbers of a reconcile's report: each printed once, by name, with changes and problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resctrl_hooks.core.node.errors import HookError, NoRMIDsError, RMIDsBusyError
from resctrl_hooks.core.node.reconcile.report import Options, Report

if TYPE_CHECKING:
    from conftest import Host

KEY = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
ID = "c" * 64
NAMES: Any = {"namespace": "shop", "pod": "web-0", "container": "nginx"}

DONE = {
    "adopted": "containers moved to their group",
    "moved": "threads moved",
    "released": "pods released",
    "cleaned": "dead containers cleaned up",
    "claimed": "groups claimed or removed",
    "placed": "running containers placed",
    "applied memory": "containers updated with memory",
    "repaired": "settings repaired",
    "orphan": "orphaned memtierd instances that would be stopped",
    "handover": "RMID handovers by time-sharing",
    "tidied": "settings repaired",
    "assigned": "bandwidth counters assigned",
    "unassigned": "bandwidth counters released",
}
"""Kinds of events that count as a change, and their text."""


def report(*, dry_run: bool = False, **reasons: Any) -> Report:
    """Return a report with these events: reasons by kind and id."""
    made = Report(dry_run=dry_run)
    for kind, events in reasons.items():
        for what, why in events.items():
            made.add(kind, what, why=why)
    return made


def test_empty_report_prints_nothing() -> None:
    nothing = Report()
    assert (nothing.ok, nothing.well, nothing.changed, nothing.only_limbo) == (True, True, False, True)
    assert nothing.as_line() == ""
    assert nothing.as_text() == f"{'running containers ':.<48} 0\n"
    said = nothing.as_document()
    assert said.pop("ok") is True
    assert not any(said[key] for key in said.keys() - {"apiVersion", "kind", "host", "time"})


@pytest.mark.parametrize("kind", DONE)
def test_each_change_is_counted_and_printed(kind: str) -> None:
    done = Report()
    done.add(kind, "a", "b")
    assert done.changed
    assert done.ok
    assert done.as_line() == f"{DONE[kind]}: 2"
    assert f"\n{DONE[kind] + ' ':.<48} 2\n" in done.as_text()


def test_number_without_ids_is_counted_and_printed() -> None:
    done = Report()
    done.count("moved", 3)
    done.count("moved", 0)
    assert (done.changed, done.as_line()) == (True, "threads moved: 3")


def test_key_counts_for_each_of_its_groups_and_once_for_its_failures() -> None:
    done = report(failed={KEY: "EIO"})
    for why in ("", "EBUSY"):
        done.add("claimed", KEY)
        done.add("failed", KEY, why=why or "EIO")
    assert done.as_line() == "groups claimed or removed: 2, failures: 1"
    assert done.as_text().endswith(f"  {KEY}: EBUSY\n")


def test_repairs_and_cleanups_are_summed() -> None:
    done = Report()
    done.count("repaired", 2)
    done.count("tidied", 3)
    assert done.as_line() == "settings repaired: 5"


@pytest.mark.parametrize(
    "values, ok, well",
    [
        ({"waiting": {KEY: "no RMID"}}, False, True),
        ({"queued": {KEY: "no RMID"}}, True, True),
        ({"failed": {KEY: "EIO"}}, False, False),
        ({"problem": {"resctrl is not mounted": ""}}, False, False),
        ({"left": {"": ""}}, False, False),
        ({"uncounted": {KEY: "in domain 0"}, "unmet": {ID: "no class"}, "foreign": {"kepler": ""}}, True, True),
    ],
)
def test_problems_are_printed(values: dict[str, Any], ok: bool, well: bool) -> None:
    wrong = report(**values)
    assert (wrong.ok, wrong.well) == (ok, well)
    assert not wrong.changed


def test_queued_and_waiting_pods_are_one_number() -> None:
    assert report(waiting={KEY: "-"}, queued={"a": "-", "b": "-"}).as_line() == "pods waiting for an RMID: 3"


def test_dry_run_prints_planned_changes() -> None:
    dry = report(dry_run=True, adopted={ID: ""}, orphan={"memtierd /b": "", "memtierd /a": ""})
    dry.count("moved", 2)
    assert dry.as_line().startswith("containers would be moved to their group: 1, threads would be moved: 2")
    assert dry.as_text().endswith("  memtierd /a\n  memtierd /b\n")


@pytest.mark.parametrize("what", [ID, ID[:12], f"{ID[:12]} memory"])
def test_failure_names_its_container(host: Host, what: str) -> None:
    failed = Report()
    failed.learn(KEY, NAMES, ID)
    failed.fail(host.context(), what, HookError("the kernel refused"))
    assert f"  shop/web-0/nginx ({what}): the kernel refused\n" in failed.as_text()
    assert f"reconcile of shop/web-0/nginx ({what}): the kernel refused" in host.log.read_text()
    (item,) = failed.as_document()["items"]
    assert item == {"event": "failed", "id": what, "key": KEY, **NAMES, "message": "the kernel refused"}
    assert failed.reasons == [HookError.reason]


@pytest.mark.parametrize("field", ["waiting", "unmet", "failed"])
def test_reason_is_printed_with_the_known_names_of_its_pod_or_container(field: str) -> None:
    values: dict[str, Any] = {field: {KEY: "EIO", f"{ID[:12]} memtierd": "it ended", "stateDir": "full"}}
    found = report(**values)
    found.learn(KEY, NAMES, ID)
    lines = [f"shop/web-0 ({KEY}): EIO", f"shop/web-0/nginx ({ID[:12]} memtierd): it ended", "stateDir: full"]
    assert found.as_text().endswith("".join(f"  {line}\n" for line in lines))
    names = {item["id"]: (item["pod"], item["container"]) for item in found.as_document()["items"]}
    assert list(names.values()) == [("web-0", ""), ("web-0", "nginx"), ("", "")]


def test_record_without_names_is_printed_by_key() -> None:
    failed = report(failed={KEY: "EIO", ID: "EIO"})
    nameless: Any = {"namespace": None}
    failed.learn(KEY, nameless, ID)
    assert failed.as_text().endswith(f"  {KEY}: EIO\n  {ID}: EIO\n")


def test_waiting_pod_waits_for_limbo_only_if_all_do() -> None:
    waits = Report()
    seen = []
    for key, limbo in (("a", True), ("b", False), ("c", True)):
        waits.wait(key, RMIDsBusyError("in limbo") if limbo else NoRMIDsError("none left"))
        seen.append(waits.only_limbo)
    assert seen == [True, False, False]
    assert (list(waits.events["waiting"]), waits.events["queued"]) == (["a", "b", "c"], {})
    waits.forget_waiting()
    assert (waits.events["waiting"], waits.only_limbo) == ({}, True)


def test_waiting_pod_under_sharing_rules_is_queued() -> None:
    waits = Report(shared=True)
    waits.wait("a", NoRMIDsError("none left"))
    assert (waits.events["waiting"], list(waits.events["queued"]), waits.ok) == ({}, ["a"], True)
    waits.forget_waiting()
    assert waits.events["queued"] == {}


def test_each_event_is_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    uncounted = {KEY: "in L3 domain 0, 2"}
    done = report(queued={"q": "later"}, waiting={"w": "no RMID"}, uncounted=uncounted, released={"k": ""})
    done.add("adopted", "b", "a")
    done.add("applied memory", "b", "a")
    done.add("applied blockio", "a")
    assert done.applied == {"memory": ["b", "a"], "blockio": ["a"]}
    done.learn("w", {"pod": "web-0"})
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.25)
    document = done.as_document()
    assert [(item["event"], item["id"], item["message"]) for item in document["items"]] == [
        ("adopted", "a", ""),
        ("adopted", "b", ""),
        ("released", "k", ""),
        ("applied memory", "a", ""),
        ("applied memory", "b", ""),
        ("applied blockio", "a", ""),
        ("uncounted", KEY, "in L3 domain 0, 2"),
        ("waiting", "w", "no RMID"),
        ("queued", "q", "later"),
    ]
    assert document["items"][-2]["pod"] == "web-0"
    assert document["time"] == "2023-11-14T22:13:20.250Z"
    assert (document["apiVersion"], document["kind"]) == ("resctrl-hooks/v1", "ReconcileReport")


def test_default_options_do_everything_and_wait_for_limbo() -> None:
    options = Options()
    assert (options.dry_run, options.claim, options.wait, options.live) == (False, False, True, None)
