"""The presentation of each feature: a container's details, the target of a step for `explain`, and cells of `list`."""

from collections.abc import Iterator
from fnmatch import fnmatch
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
    "rdt_class, there, finds",
    [
        ("gold", False, "would be created; uses one RMID"),
        ("gold", True, "exists"),
        ("", False, "would be created; uses one RMID"),
        ("", True, "exists"),
        ("none", False, "would fail: RDT class none does not exist; the hook does not create classes"),
    ],
)
def test_group_of_monitoring_is_found(host: Host, rdt_class: str, there: bool, finds: str) -> None:
    host.process(100, CGROUP)
    host.add_class("gold")
    where = host.resctrl / rdt_class / "mon_groups" / UID
    if there:
        where.mkdir()
    assert probed("monitoring", host, {"class": rdt_class}) == Found(str(where), finds, rdt_class != "none")


def test_missing_monitoring_is_named(host: Host) -> None:
    host.process(100, CGROUP)
    for missing, words in (("mon_groups", "no monitoring in the resctrl"), ("info", "no resctrl")):
        (host.resctrl / missing).rmdir()
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
    "fatal, idle, binary, finds",
    [
        ([], [], "", "would be started"),
        ([], ["no swap", "swap is 0"], "", "would be started; no swap; swap is 0"),
        (["no tracker"], ["no swap"], "", "would fail: no tracker"),
        (["no tracker"], [], "/none", "would fail: *; no tracker"),
    ],
)
def test_missing_requirements_of_memtierd_are_found(
    node: MemtierdHost, monkeypatch: pytest.MonkeyPatch, fatal: list[str], idle: list[str], binary: str, finds: str
) -> None:
    assert node.start().code == 0
    step = node.step()
    node.clean()
    monkeypatch.setattr(memtierd, "lacking", always((fatal, idle)))
    if binary:
        node.configure(binary=binary)
    found = display("memtierd").probe(step, workload_of(node.host), node.host.context())
    assert (found.where, found.possible) == (str(node.folder()), not fatal)
    assert fnmatch(found.finds, finds)
    assert ("/none" in found.finds) == bool(binary)


# Other features


@pytest.mark.parametrize(
    "feature, needs, details",
    [
        ("scheduling", {"class": "bg", "process": {"nice": 10}, "values": [["io.weight", 5]]},
         {"class": "bg", "nice": 10, "io.weight": "5"}),
        ("rdt", {"class": "gold"}, {"class": "gold"}),
        ("memory", {"class": "", "limits": {"memory.high": "5"}}, {"class": "", "memory.high": "5"}),
        ("memory", {"class": "a", "limits": {}, "part": 0.8}, {"class": "a", "memory.high": "0.8 of memory.max"}),
    ],
)  # fmt: skip
def test_step_is_described_with_its_values(feature: str, needs: dict[str, Any], details: dict[str, Any]) -> None:
    assert described(feature, {}, needs) == details


# The table


def test_features_and_rows_match_and_column_names_are_unique() -> None:
    assert sorted(names()) == sorted(FEATURES)
    assert names()[: len(DISPLAYS)] == [*DISPLAYS]
    columns = dict.fromkeys(columns for name in names() if (columns := display(name).columns))
    heads = [head for found in columns for head in found.heads]
    assert len(heads) == len(set(heads))
    assert all(found.numbers <= set(found.heads) for found in columns)


def test_row_without_display_shows_recorded_parameters(host: Host) -> None:
    host.process(100, CGROUP)
    nothing = Display().probe(Step("", "", {}, ""), workload_of(host), host.context())
    assert probed("scheduling", host, {}) == Found() == nothing
    steps = [Step("oom", "score", {"value": 500}, "").as_record()]
    assert Display().describe({}, steps) == {"score": {"value": 500}}
    assert Display().columns is None
    assert Found() == ("", "", True)
