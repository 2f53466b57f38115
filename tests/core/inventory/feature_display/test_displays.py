"""The presentation of each feature: a container's details, the target of a step for `explain`, and cells of `list`."""

import shutil
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


def test_group_of_monitoring_is_found_or_its_lack_named(host: Host) -> None:
    host.process(100, CGROUP)
    host.add_class("gold")
    created = "would be created; uses one RMID"
    no_class = "would fail: RDT class none does not exist; the hook does not create classes"
    for rdt_class, finds in (("gold", created), ("", created), ("none", no_class)):
        where = host.resctrl / rdt_class / "mon_groups" / UID
        assert probed("monitoring", host, {"class": rdt_class}) == Found(str(where), finds, rdt_class != "none")
        if rdt_class != "none":
            where.mkdir()
            assert probed("monitoring", host, {"class": rdt_class}) == Found(str(where), "exists")
    for missing, words in (("mon_groups", "no monitoring in the resctrl"), ("info", "no resctrl")):
        shutil.rmtree(host.resctrl / missing)
        found = probed("monitoring", host, {"class": ""})
        assert (found.finds, found.possible) == (f"would fail: {words} at {host.resctrl}", False)
    assert described("monitoring", {}, {"class": ""}) == {}


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


def test_cells_of_memory_are_those_of_served_containers(golden: Golden) -> None:
    swap = {"memory.swap.current": "1024", "memory.swap.max": "max"}
    limits = {LIMITS: {"class": ""}, CGROUP_FILES: {"memory.current": str(1 << 20), "memory.high": str(1 << 22)}}
    small = {LIMITS: {"class": "small"}, CGROUP_FILES: {"memory.current": str(1 << 20)}}
    runs, ended = ({"memtierd": {"class": "track", "state": state}} for state in ("runs as pid 7", "does not run"))
    cases: dict[str, list[dict[str, Any]]] = {
        "runs": [runs],
        "does not run": [ended],
        "one of two": [runs, ended, {"memory": {}}],
        "with a class of memory": [{}, {"memory": {"class": "b"}, **runs}],
        "swap without limit": [{**runs, "cgroup": swap}],
        "swap with limit": [{**runs, "cgroup": swap | {"memory.swap.max": "2048"}}, {}],
        "limits": [limits],
        "limits of two": [limits, small],
    }
    golden("\n".join(f"{label}: {' | '.join(cells('memory', *containers))}" for label, containers in cases.items()))


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


def test_missing_requirements_of_memtierd_are_found(node: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.start().code == 0
    step = node.step()
    node.clean()
    cases: tuple[tuple[list[str], list[str], str, str], ...] = (
        ([], [], "", "would be started"),
        ([], ["no swap", "swap is 0"], "", "would be started; no swap; swap is 0"),
        (["no tracker"], ["no swap"], "", "would fail: no tracker"),
        (["no tracker"], [], "/none", "would fail: *; no tracker"),
    )
    for fatal, idle, binary, finds in cases:
        monkeypatch.setattr(memtierd, "lacking", always((fatal, idle)))
        if binary:
            node.configure(binary=binary)
        found = display("memtierd").probe(step, workload_of(node.host), node.host.context())
        assert (found.where, found.possible) == (str(node.folder()), not fatal)
        assert fnmatch(found.finds, finds)
        assert ("/none" in found.finds) == bool(binary)


def test_step_is_described_with_its_values() -> None:
    needs: dict[str, Any] = {"class": "bg", "process": {"nice": 10}, "values": [["io.weight", 5]]}
    assert described("scheduling", {}, needs) == {"class": "bg", "nice": 10, "io.weight": "5"}
    assert described("rdt", {}, {"class": "gold"}) == {"class": "gold"}
    limits: dict[str, Any] = {"class": "", "limits": {"memory.high": "5"}}
    assert described("memory", {}, limits) == {"class": "", "memory.high": "5"}
    part: dict[str, Any] = {"class": "a", "limits": {}, "part": 0.8}
    assert described("memory", {}, part) == {"class": "a", "memory.high": "0.8 of memory.max"}


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
