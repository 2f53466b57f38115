"""The presentation of each feature: a container's details, the target of a step for `explain`, and cells of `list`."""

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, always, workload_of
from golden import Golden
from hosts.displays import cells, described, probed
from hosts.memtierd import MemtierdHost

from resctrl_hooks.core.inventory.feature_display import memory, memtierd
from resctrl_hooks.core.inventory.feature_display.memory import CGROUP as CGROUP_FILES
from resctrl_hooks.core.inventory.feature_display.model import Display, Found
from resctrl_hooks.core.inventory.feature_display.table import DISPLAYS, display, names
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features.memory import NAME as LIMITS

CGROUP = f"{POD_CGROUP}/crio-{ID}"


# Monitoring


@pytest.mark.parametrize(
    "rdt_class, make, finds",
    [
        ("gold", [], "would be created; uses one RMID"),
        ("gold", [f"gold/mon_groups/{UID}"], "exists"),
        ("", [], "would be created; uses one RMID"),
        ("", [f"mon_groups/{UID}"], "exists"),
        ("none", [], "would fail: RDT class none does not exist; the hook does not create classes"),
    ],
)
def test_group_of_monitoring_is_found(host: Host, rdt_class: str, make: list[str], finds: str) -> None:
    host.process(100, CGROUP)
    host.add_class("gold")
    for folder in make:
        (host.resctrl / folder).mkdir()
    where = str(host.resctrl / rdt_class / "mon_groups" / UID)
    assert probed("monitoring", host, {"class": rdt_class}) == Found(where, finds, not finds.startswith("would fail"))


@pytest.mark.parametrize("missing, words", [("mon_groups", "no monitoring in the resctrl"), ("info", "no resctrl")])
def test_missing_monitoring_is_named(host: Host, missing: str, words: str) -> None:
    host.process(100, CGROUP)
    (host.resctrl / "mon_groups").rmdir()
    if missing == "info":
        (host.resctrl / "info").rmdir()
    found = probed("monitoring", host, {"class": ""})
    assert (found.finds, found.possible) == (f"would fail: {words} at {host.resctrl}", False)
    assert described("monitoring", {}, {"class": ""}) == {}


# Memory


def test_present_memory_is_that_of_the_cgroup(host: Host) -> None:
    host.process(100, CGROUP)
    folder = host.cgroup / CGROUP.lstrip("/")
    assert probed("memory", host, {}) == Found(str(folder), "not visible now")
    (folder / "memory.current").write_text("4096\n")
    (folder / "memory.swap.max").write_text("max\n")
    (folder / "memory.high").write_text("\n")
    assert probed("memory", host, {}).finds == "now memory.current 4096, memory.swap.max max"
    assert memory.memory_of(str(folder)) == {"memory.current": "4096", "memory.swap.max": "max"}
    assert memory.memory_of("") == {}
    workload = workload_of(host)
    workload.cgroup = ""
    found = display("memory").probe(Step("memory", "a", {}, ""), workload, host.context())
    assert found == Found("the container's cgroup", "not visible now")


def tierd(state: str) -> dict[str, Any]:
    return {"memtierd": {"class": "track", "state": state}}


def test_cells_of_memory_are_those_of_served_containers(golden: Golden) -> None:
    swap = {"memory.swap.current": "1024", "memory.swap.max": "max"}
    limits = {LIMITS: {"class": ""}, CGROUP_FILES: {"memory.current": str(1 << 20), "memory.high": str(1 << 22)}}
    small = {LIMITS: {"class": "small"}, CGROUP_FILES: {"memory.current": str(1 << 20)}}
    runs, ended = tierd("runs as pid 7"), tierd("does not run")
    cases: dict[str, list[dict[str, Any]]] = {
        "runs": [runs],
        "does not run": [ended],
        "one of two": [runs, ended, {"memory": {}}],
        "with a class of memory": [{}, {"memory": {"class": "b"}} | runs],
        "swap without limit": [runs | {"cgroup": swap}],
        "swap with limit": [runs | {"cgroup": swap | {"memory.swap.max": "2048"}}, {}],
        "limits": [limits],
        "limits of two": [limits, small],
    }
    golden("\n".join(f"{label}: {' | '.join(cells('memory', *containers))}" for label, containers in cases.items()))


# memtierd


@pytest.fixture
def node(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemtierdHost]:
    made = MemtierdHost(host)
    monkeypatch.setattr(memtierd, "lacking", always(([], [])))
    host.process(100, CGROUP)
    yield made
    made.clean()


def test_running_memtierd_is_described_and_found(node: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.start().code == 0
    row, step, record = display("memtierd"), node.step(), node.record()
    steps = [step.as_record()]
    pid, folder = node.pid(), str(node.folder())
    details = row.describe(record, steps)
    assert details == {"class": "track", "state": f"runs as pid {pid}", "supervisor": "process", "folder": folder}
    assert row.probe(step, workload_of(node.host), node.host.context()) == Found(folder, f"runs as pid {pid}")
    monkeypatch.setattr(memtierd, "attended", always(value=False))
    assert row.describe(record, steps)["state"] == f"runs as pid {pid}; {memtierd.UNATTENDED}"
    monkeypatch.setattr(memtierd, "running", always([]))
    assert row.describe(record, steps)["state"] == "does not run"


@pytest.mark.parametrize(
    "fatal, idle, binary, found",
    [
        ([], [], "", Found("", "would be started")),
        ([], ["no swap", "swap is 0"], "", Found("", "would be started; no swap; swap is 0")),
        (["no tracker"], ["no swap"], "", Found("", "would fail: no tracker", possible=False)),
        (["no tracker"], [], "/none", Found("", "would fail: {}; no tracker", possible=False)),
    ],
)
def test_missing_requirements_of_memtierd_are_found(
    node: MemtierdHost, monkeypatch: pytest.MonkeyPatch, fatal: list[str], idle: list[str], binary: str, found: Found
) -> None:
    assert node.start().code == 0
    step = node.step()
    node.clean()
    monkeypatch.setattr(memtierd, "lacking", always((fatal, idle)))
    if binary:
        node.configure(binary=binary)
    where, finds, possible = display("memtierd").probe(step, workload_of(node.host), node.host.context())
    assert (where, possible) == (str(node.folder()), found.possible)
    start, _, end = found.finds.partition("{}")
    assert finds.startswith(start)
    assert finds.endswith(end)
    assert ("/none" in finds) == bool(binary)


# Other features


def test_class_is_described_with_its_values(host: Host) -> None:
    needs = {"class": "bg", "process": {"nice": 10}, "values": [["io.weight", 5]]}
    assert described("scheduling", {}, needs) == {"class": "bg", "nice": 10, "io.weight": "5"}
    assert described("rdt", {}, {"class": "gold"}) == {"class": "gold"}
    assert (
        probed("scheduling", host, {})
        == Found()
        == Display().probe(Step("", "", {}, ""), workload_of(host), host.context())
    )


# The table


def test_features_and_rows_match() -> None:
    assert sorted(names()) == sorted(FEATURES)
    assert names()[: len(DISPLAYS)] == [*DISPLAYS]


def test_column_names_are_unique_over_features() -> None:
    columns = dict.fromkeys(columns for name in names() if (columns := display(name).columns))
    heads = [head for found in columns for head in found.heads]
    assert len(heads) == len(set(heads))
    assert all(found.numbers <= set(found.heads) for found in columns)


@pytest.mark.parametrize(
    "needs, details",
    [
        ({"class": "", "limits": {"memory.high": "5"}}, {"class": "", "memory.high": "5"}),
        ({"class": "a", "limits": {}, "part": 0.8}, {"class": "a", "memory.high": "0.8 of memory.max"}),
    ],
)
def test_limits_of_a_container_are_described(needs: dict[str, Any], details: dict[str, Any]) -> None:
    assert described("memory", {}, needs) == details


def test_row_without_display_shows_recorded_parameters() -> None:
    steps = [Step("oom", "score", {"value": 500}, "").as_record()]
    assert Display().describe({}, steps) == {"score": {"value": 500}}
    assert Display().columns is None
    assert Found() == ("", "", True)
