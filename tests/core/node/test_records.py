"""The types of records match the written files, and names of pods, containers and classes are valid."""

import fnmatch
import uuid
from typing import Any

import pytest
from hosts.record_types import check_fields
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node import call_metrics, names, records, shapes
from resctrl_hooks.core.node.features.memtierd.processes import SupervisorRecord
from resctrl_hooks.core.node.host.topology import MemoryNodeRecord, TopologyRecord
from resctrl_hooks.core.node.reconcile.vanished import VanishedRecord
from resctrl_hooks.core.node.resctrl.counters_record import CountersRecord, CountsRecord
from resctrl_hooks.core.node.shapes import LARGEST, Annotated, NotRequired, TypedDict, exactly, fits
from resctrl_hooks.core.node.sharing import counter_turns, released_counters, runtimes
from resctrl_hooks.core.node.watch.status import Status, WatchRecord

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
ANY_TEXT = st.text(st.characters(codec=None), max_size=300)


@given(st.uuids())
def test_every_spelling_of_pod_uid_has_one_canonical_form(uid: uuid.UUID) -> None:
    for spelling in (str(uid), str(uid).upper(), uid.hex, uid.hex.upper()):
        assert names.pod_uid_validator(spelling)
        assert names.canonical_pod_uid(spelling) == str(uid)
    assert names.workload_key_validator(str(uid))
    assert not names.workload_key_validator(str(uid).upper() if str(uid).upper() != str(uid) else "")


def test_invalid_pod_uid_is_refused() -> None:
    for text in (
        "", UID[:-1], UID + "0", UID.replace("-", "_"), UID[:8] + "0" + UID[9:], "g" * 32, " " + UID, UID + "\n",
        "-" * 36, "../" + UID[3:], "\N{KELVIN SIGN}" * 32,
        "\N{FULLWIDTH DIGIT ONE}" * 32, UID.replace("-", "", 1) + "-",
    ):  # fmt: skip
        assert not names.pod_uid_validator(text)
        assert names.canonical_pod_uid(text) == text
        assert not names.workload_key_validator(text)


@given(ANY_TEXT)
def test_valid_key_or_class_is_one_safe_path_component(text: str) -> None:
    for valid in (
        names.default_key_validator,
        names.valid_container_id,
        names.pod_uid_validator,
        names.workload_key_validator,
    ):
        if valid(text):
            assert "/" not in text
            assert text not in ("", ".", "..")
            assert text.isascii()
            assert text.isprintable()
            assert len(text) <= 200
    if names.valid_class(text):
        assert not {"/", "\0"} & {*text}
        assert text not in ("", ".", "..", "info", "mon_data", "mon_groups")
        assert len(text.encode()) <= 255


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_patterns_match_as_in_shell(pattern: str, name: str) -> None:
    assert names.matches(pattern, name) == fnmatch.fnmatchcase(name, pattern)
    assert not names.matches("*a" * 2000 + "b", "a" * 4000), "and fast"


STEP = {"feature": "rdt", "action": "class", "needs": {"class": "gold"}}
NAMES = {"namespace": "shop", "pod": "web", "container": "app"}
CGROUP = {"class": "slow", "values": [["io.weight", "50"]], "properties": {"IOWeight": "50"}}
PROCESS = {"policy": "batch", "priority": 0, "nice": 5, "ioClass": "idle", "ioPriority": 7}
NODE = {"id": 0, "cpus": "0-3", "distances": {"0": 10}, "memory": 1, "kind": "dram"}
STAGE = {"runs": 1, "seconds": 0.5, "last": 17, "failures": {"full": 1}, "buckets": [1]}
EXAMPLES: list[tuple[Any, dict[str, Any], list[str]]] = [
    (records.ClaimRecord, {"priority": -1, "since": 0.5, "rules": 1, "entry": ""}, []),
    (records.PodRecord, {
        "format": 1, "key": "key", "boot": "boot", "groups": {"": "created"}, "names": {"": "pod-key"}, "born": 0.5,
        "renaming": {"": "other"}, "limitedTo": "batch", "limitedFrom": {"c": ""}, "identities": {"": "7"},
        "reserved": {"": 0.5}, **NAMES,
        "cgroup": "/pod", "since": {"": 0.5}, "baselines": {"": ["7", {"core_energy": 0.5}]}, "unread": ["a.nri.io"],
        "claim": {"priority": 0, "since": 0.5, "rules": 1, "entry": ""},
    }, ["format"]),  # the ledger reads it first
    (records.MemberRecord, {
        "id": "id", "key": "key", "boot": "boot", "format": 1, "pid": 1, "start": 1, "runtime": "runc", **NAMES,
        "bundle": "/bundle", "cgroup": "/cgroup", "podCgroup": "", "time": 17, "steps": [STEP], "again": True,
        "intelRdt": True, "runtimeGroup": True, "late": True, "unmet": {"rdt": "full"}, "unplanned": ["rdt"],
        "starts": {"memtierd": [0.5]}, "startUptimes": {"memtierd": [0.5]}, "kept": {"blockio": ["io.weight"]},
        "told": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    }, ["format"]),
    (records.ClassNeeds, {"class": ""}, []),
    (records.LimitNeeds, {"class": "", "limits": {"memory.high": "1"}, "part": 0.5}, []),
    (records.CgroupNeeds, CGROUP, []), (records.ProcessRecord, PROCESS, []),
    (records.SchedulingNeeds, {**CGROUP, "process": PROCESS}, []),
    (records.MemtierdNeeds,
     {"class": "swap", "runDir": "/run", "names": ["a", "b", "c"], "supervisor": "auto", "cgroups": "/cgroups"}, []),
    (runtimes.PeaksRecord, {"hours": {"5": 1}, "uptime": {"5": 1}}, []),
    (counter_turns.TurnsRecord, {"boot": "boot", "last": 0.5, "gap": 0.5, "since": {"key": [True, 0.5]}}, []),
    (released_counters.ReleasedRecord, {"boot": "boot", "counters": [["", "mbm_total_bytes", 0]]}, []),
    (call_metrics.StageRecord, STAGE, []), (MemoryNodeRecord, NODE, []),
    (call_metrics.CallMetricsRecord,
     {"format": 1, "stages": {"poststop": STAGE}, "last": [[17, "", "", ""]], "folded": "8:1"}, []),
    (TopologyRecord, {
        "format": 1, "online": "0", "offline": "", "isolated": "", "packages": {"0": "0"}, "dies": {"0": "0"},
        "l3": {"0": "0"}, "cores": ["0"], "kinds": {"efficient": "0"}, "nodes": [NODE],
    }, []),
    (SupervisorRecord, {"boot": "boot", "processes": [[1, 1]]}, []),
    (VanishedRecord, {"total": 1, "last": 0.5, "pods": {"key": [1, 0.5, 0.5]}, "uptime": {"key": [0.5, 0.5, 0.5]}}, []),
    (WatchRecord, dict(Status("/state").values), []),
    (CountsRecord, {
        "groups": {"": ["7", [1], [None]]}, "times": {"": [0.5, [0.5], 0.5]}, "done": {"": {"path": 1}},
        "spent": {"": {"path": 0.5}}, "others": {"/x": [0.5, "7", [1], [1]]}, "turns": [[0.5, 1]], "turn": [0.5, 1],
        "unseen": {"7": ["", 1, True, 0.5, [1], [1]]}, "inherited": {"": ["7", 0.5, {"path": 1}]},
        "ended": {"key": 0.5}, "gone": 17, "left": 0.5,
    }, []),
    (CountersRecord,
     {"format": 1, "boot": "boot", "layout": ["path"], "keys": {"key": 1}, "saved": 0.5, "mount": ["1"]},
     ["format", "boot", "keys.key"]),  # `totals_file` and `Carried.of` check them
]  # fmt: skip
"""Types, values with all of their fields, and the parts that other code checks."""


@pytest.mark.parametrize("kind, value, elsewhere", EXAMPLES, ids=lambda one: getattr(one, "__name__", ""))
def test_record_checks_each_of_its_fields(kind: Any, value: dict[str, Any], elsewhere: list[str]) -> None:
    check_fields(kind, value, *elsewhere)


class Base(TypedDict):
    name: shapes.Text
    path: NotRequired[shapes.Path]


class Derived(Base, total=False):
    inner: Base


Keyword = TypedDict("Keyword", {"as": shapes.Flag})
FOLDERS = dict[shapes.Folder, Annotated["list[int]", exactly(shapes.Bit, shapes.Whole)]]


@pytest.mark.parametrize("kind, good, wrong", [
    (Base, [{"name": ""}, {"name": "", "path": "/a"}, {"name": "", "new": 1}], [{}, {"path": ""}, [], None, "name"]),
    (Derived, [{"name": ""}, {"name": "", "inner": {"name": ""}}], [{}, {"name": "", "inner": {}}]),
    (list[tuple[shapes.Text, shapes.Count]], [[], [["", 0]]], [[[""]], [["", 0, 0]], [["", -1]], [[1, 0]], {}, [{}]]),
    (dict[shapes.Text, shapes.Text], [{}, {"": ""}], [[], {"\0": ""}, {"": "\0"}, {"": 1}, {"\ud800": ""}]),
    (FOLDERS, [{}, {"a": [0, -1]}], [{"a/b": [0, 0]}, {"..": [0, 0]}, {"a": [0]}, {"a": [-1, 0]}]),
    (Keyword, [{"as": True}], [{}, {"as": 1}]), (shapes.Text, ["", "ü"], ["\0", "\ud800", 1, None, []]),
    (shapes.Name, ["\0", "\ud800"], [1, None]), (shapes.Path, ["", "/", "/a/..b"], ["a", "/..", "/a/../b", "/\0", 1]),
    (shapes.Folder, ["a", "..."], ["", ".", "..", "a/b", "\0", 1]), (shapes.Flag, [True, False], [0, 1, None, ""]),
    (shapes.Whole, [0, -1, LARGEST - 1], [True, 1.0, LARGEST, -LARGEST, "1"]), (shapes.Anything, [None, [{}]], []),
    (shapes.Count, [0, LARGEST - 1], [-1, True, 0.0, LARGEST]), (shapes.Bit, [0, (1 << 16) - 1], [-1, 1 << 16, True]),
    (shapes.Number, [0, -0.5, 1e18], [float("inf"), float("nan"), 1e300, LARGEST, True, "1", None]),
])  # fmt: skip
def test_type_accepts_its_values_only(kind: Any, good: list[Any], wrong: list[Any]) -> None:
    assert [value for value in good if not fits(kind, value)] == []
    assert [value for value in wrong if fits(kind, value)] == []


def test_record_of_a_pod_has_groups_and_fields_of_their_types() -> None:
    wrong: list[Any] = [{}, {"boot": "b"}, {"groups": 5}, {"groups": {}, "boot": 5}]
    assert records.RECORDS["pod"]({"groups": {"": "created"}})
    assert [value for value in wrong if records.RECORDS["pod"](value)] == []
