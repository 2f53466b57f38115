"""The text of `list`, without a node: its columns, sums, order, selection, and the rows of `--watch`."""

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from conftest import always

from core.cli.test_show_text import squeezed
from resctrl_hooks.core.cli import list as command
from resctrl_hooks.core.cli import list_options
from resctrl_hooks.core.cli.list_columns import columns_of
from resctrl_hooks.core.cli.list_options import ListOptions, complete
from resctrl_hooks.core.cli.tables import Name
from resctrl_hooks.core.inventory.account import Account
from resctrl_hooks.core.inventory.models import Container, FreeCounters, Group, Inventory, Pod, Refusal, Rmids
from resctrl_hooks.core.inventory.pod_names import PodName
from resctrl_hooks.core.inventory.selector import Selector

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_700_000_000
NO_ONE: Any = None


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: float(NOW))


def container(id_: str = "c" * 64, **more: Any) -> Container:
    return Container.model_validate({"id": id_, "alive": True, "rdt_class": "", **more})


def pod(name: str, **more: Any) -> Pod:
    return Pod.model_validate({"key": f"key-{name}", "namespace": "shop", "pod": name, "state": "assigned", **more})


def inventory(*pods: Pod, **more: Any) -> Inventory:
    return Inventory(resctrl="/r", pods=[*pods], **more)


def printed(capsys: pytest.CaptureFixture[str], found: Inventory, every: bool = False, **more: Any) -> list[str]:  # noqa: FBT002
    command._print(found, ListOptions(**more), every=every)
    return squeezed(capsys.readouterr().out.splitlines())


GROUP = Group(rdt_class="gold", name="job", path="/r/gold/mon_groups/job", origin="foreign", tasks=3)


def test_pods_containers_and_foreign_groups_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    web = pod(
        "web",
        since=NOW - 3600,
        groups=[GROUP],
        containers=[
            container(name="app", threads=2, since=NOW - 60),
            container("d" * 64, alive=False, rdt_class=None),
            container("e" * 64, rdt_class="gold", details={"without": {"rdt": "x", "memory": "y"}}),
        ],
        priority=5,
        bandwidth_counters={"mbm_total_bytes": {0: True, 1: False}, "mbm_local_bytes": {0: False}},
    )
    bare = pod("[bare]", namespace="", state="waiting", bandwidth_counters={"mbm_local_bytes": {0: False}})
    none = pod("none", state="idle")
    assert printed(capsys, inventory(web, bare, none, foreign=[GROUP]), every=True, headers=True) == [
        "POD  RUNNING  STATE  CLASS  TASKS  AGE  COUNTERS  WITHOUT  PRIORITY",
        "shop/web  2/3  assigned  /,gold  3  1h  total 1/2  memory,rdt  5",
        "  app  running  /  2  1m  -",
        "  dddddddddddd  ended  -  0  -  -",
        "  eeeeeeeeeeee  running  gold  0  -  memory,rdt",
        "[bare]  0/0  waiting  -  0  -  none  -  -",
        "shop/none  0/0  idle  -  0  -  -  -  -",
        "gold/mon_groups/job  -  foreign  gold  3  -  -  -  -",
        "idle: no container is running; the group is removed with the pod",
        "waiting: no RMID was free; reconcile creates the pod's group when an RMID is free",
        "WITHOUT: configured features that running containers lack; `show POD` has the reasons",
    ]


def test_wide_table_has_ids_threads_and_the_columns_of_features(capsys: pytest.CaptureFixture[str]) -> None:
    details = {"memory": {"class": "b"}, "cgroup": {"memory.current": "1024"}}
    one = pod(
        "web",
        containers=[container(outside=2, details=details), container("d" * 64, alive=False, details=details)],
    )
    lines = printed(capsys, inventory(one, pod("db")), every=True, form="wide", namespace="shop")
    assert lines[:5] == [
        "POD  RUNNING  STATE  CLASS  TASKS  AGE  OUTSIDE  ID  MEMORY CLASS  MEMORY  SWAP  MEMTIERD",
        "web  1/2  assigned  /  0  -  2  key-web  b  1.00 KiB  -  -",
        "  cccccccccccc  running  /  0  -  2  cccccccccccc  b  1.00 KiB  -  -",
        "  dddddddddddd  ended  /  0  -  -  dddddddddddd  -  -  -  -",
        "db  0/0  assigned  -  0  -  -  key-db  -  -  -  -",
    ]
    narrow = [column.head for column in columns_of([one], ListOptions())]
    assert narrow == ["POD", "RUNNING", "STATE", "CLASS", "TASKS", "AGE"]
    plain = [column.head for column in columns_of([pod("db", containers=[container()])], ListOptions(form="wide"))]
    assert plain == [*narrow, "OUTSIDE", "ID"]


def test_sums_of_the_node_follow_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    refusals = [
        Refusal(time=NOW - 60, namespace="shop", pod=f"p{number}", why="no :x:") for number in (1, 2, 3, 4, 5, 6, 6)
    ]
    found = inventory(
        warnings=["the disk is full"],
        rmids=Rmids(total=16, used=6, free_by_class={"": 2, "gold": 1}),
        waiting=["a", "b"],
        bandwidth_counters=[FreeCounters(domain=1, total=4, free=3)],
        account=Account(rmids={"pods": 2}, closids={}, limits={"L3": 16}, free_by_class={}, owners=[]),
        refusals=refusals,
    )
    rest = [
        "",
        "Recently rejected",
        *(f"  1m ago  shop/p{number}: no :x:" for number in (2, 3, 4, 5)),
        "  1m ago  shop/p6: no :x: (2 times)",
    ]
    assert printed(capsys, found) == [
        "No monitored pods.",
        "",
        "warning: the disk is full",
        "",
        "6 of 16 RMIDs in use, 3 free, 2 waiting.",
        "Free by class: root class 2, gold 1.",
        "3 of 4 bandwidth counters free in L3 domain 1.",
        "RMIDs by owner: 2 pods.",
        *rest,
    ]
    selected = ["No monitored pods match.", "", "warning: the disk is full", *rest]
    assert printed(capsys, found, namespace="shop") == selected
    assert printed(capsys, found, headers=False) == []
    assert printed(capsys, inventory(rmids=Rmids(total=4, used=1))) == [
        "No monitored pods.",
        "",
        "1 of 4 RMIDs in use, 3 free, 0 waiting.",
    ]
    without = printed(capsys, inventory(pod("a", state="waiting"), problem="no resctrl"))
    assert without[-1] == "waiting: no RMID was free; reconcile cannot create a group without resctrl"


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """Return the inventory that the command gathers."""
    busy = [container(outside=1), container("d" * 64)]
    found = inventory(
        pod("b", state="idle", since=30, slowdown=1.5, groups=[GROUP]),
        pod("a", since=10, containers=[container(), container("d" * 64, alive=False)]),
        pod("d", state="waiting", since=20, namespace="other", slowdown=2.0),
        pod("c", state="partly", since=40, containers=busy, groups=[GROUP, GROUP]),
        foreign=[GROUP],
        refusals=[
            Refusal(time=1, key="key-a", why="1"),
            Refusal(time=2, key="key-z", namespace="shop", why="2"),
            Refusal(time=3, key="key-z", namespace="other", why="3"),
        ],
    )
    monkeypatch.setattr(command, "gather", lambda _: found.model_copy(deep=True))
    monkeypatch.setattr(command, "warnings_of", always(["full"]))
    monkeypatch.setattr(list_options, "find", lambda _, what: f"key-{what.rpartition('/')[2]}")
    monkeypatch.setattr(list_options, "labels_of", lambda _, pod: {"app": pod.pod})
    return found


@pytest.mark.parametrize(
    "sort, order",
    [
        ("state", "dcab"),
        ("name", "dabc"),
        ("class", "dacb"),
        ("running", "cadb"),
        ("tasks", "cbda"),
        ("outside", "cdab"),
        ("age", "adbc"),
    ],
)
def test_pods_are_in_the_order_of_the_column(gathered: Inventory, sort: str, order: str) -> None:
    check_order(gathered, sort, order)


def check_order(gathered: Inventory, sort: str, order: str) -> None:
    """Check the order of pods by a column, and that nothing else of the node changes."""
    for options, expected in ((ListOptions(sort=sort), order), (ListOptions(sort=sort, reverse=True), order[::-1])):
        found = command._gathered(NO_ONE, options)
        assert [pod.pod for pod in found.pods] == [*expected]
    assert found.warnings == ["full"]
    assert (len(found.foreign), len(found.refusals)) == (1, 3)


@pytest.mark.parametrize(
    "options, pods, refusals",
    [
        ({"pods": ("a", "shop/c")}, "ac", ["1"]),
        ({"namespace": "shop"}, "abc", ["1", "2"]),
        ({"namespace": "shop", "pods": ("a", "other/d")}, "a", ["1", "2"]),
        ({"selector": Selector("app in (a, d)")}, "ad", ["1"]),
        ({"selector": Selector("app"), "namespace": "other"}, "d", ["3"]),
    ],
)
def test_selection_leaves_foreign_groups_and_other_refusals_out(
    gathered: Inventory, options: dict[str, Any], pods: str, refusals: list[str]
) -> None:
    found = command._gathered(NO_ONE, ListOptions(sort="name", **options))
    assert sorted(pod.pod for pod in found.pods) == [*pods]
    assert ([one.why for one in found.refusals], found.foreign) == (refusals, [])
    assert ListOptions(**options).filtered


def test_named_pod_is_of_the_selected_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_options, "find", lambda _, what: what)
    assert ListOptions(namespace="shop").key(NO_ONE, "web") == "shop/web"
    assert ListOptions(namespace="shop").key(NO_ONE, "other/web") == "other/web"
    assert ListOptions().key(NO_ONE, "web") == "web"
    assert not ListOptions().filtered


@pytest.mark.parametrize("form", ["table", "name"])
def test_watch_prints_new_changed_and_removed_pods(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: Any
) -> None:
    first = inventory(pod("a"), pod("b", slowdown=1.0), pod("c"))
    looks: Iterator[Inventory] = iter(
        [
            inventory(pod("a"), pod("b", slowdown=2.0), pod("c")),  # only a measurement
            inventory(pod("a", state="partly"), pod("b"), pod("c"), pod("n")),
            inventory(pod("a", state="partly"), pod("b"), pod("n")),
        ]
    )
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        print("---")

    def look(*_: Any) -> Inventory:
        found = next(looks, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(command, "_gathered", look)
    command._watch(NO_ONE, ListOptions(form=form, watch=True), first, every=False)
    lines = squeezed(capsys.readouterr().out.splitlines())
    assert pauses == [2.0] * 4
    rows = lines[lines.index("---") :]
    if form == "name":
        assert lines[:3] == ["shop/a", "shop/b", "shop/c"]
        assert rows == [
            "---",
            "---",
            *("shop/a", "shop/b", "shop/c", "shop/n"),
            "---",
            "shop/a",
            "shop/b",
            "shop/n",
            "---",
        ]
    else:
        changed = ["shop/a  0/0  partly  -  0  -", "shop/n  0/0  assigned  -  0  -"]
        assert rows == ["---", "---", *changed, "---", "shop/c  0/0  gone  -  0  -", "---"]


class _Names:
    """The names of three pods, whatever the node."""

    def __init__(self, _: Any) -> None:
        self.learnt: set[str] = set()

    def learn(self, keys: set[str]) -> None:
        self.learnt = keys

    def of(self, key: str) -> PodName:
        assert key in self.learnt
        return PodName("shop" if key != "3" else "other", {"1": "web-0", "2": "db-0", "3": "web-1"}[key], "")


@pytest.mark.parametrize(
    "namespace, typed, offered",
    [
        ("", "shop/", ["shop/db-0", "shop/web-0"]),
        ("", "web", ["web-0", "web-1"]),
        ("shop", "w", ["web-0"]),
        ("none", "w", []),
        ("", "x", []),
    ],
)
def test_names_are_completed(monkeypatch: pytest.MonkeyPatch, namespace: str, typed: str, offered: list[str]) -> None:
    monkeypatch.setattr("resctrl_hooks.core.cli.node.find_settings", lambda config: (config, ""))
    monkeypatch.setattr(list_options, "Context", lambda config, _: {"/my.yaml": 1}[config])
    monkeypatch.setattr("resctrl_hooks.core.inventory.pod_names.PodNames", _Names)
    monkeypatch.setattr(list_options, "recorded", always({"1", "2", "3"}))

    given: Any = SimpleNamespace(params={"namespace": namespace, "config": "/my.yaml"}, find_root=lambda: given)
    assert complete(given, NO_ONE, typed) == offered
    monkeypatch.setattr(list_options, "recorded", always(None))  # cannot be read
    assert complete(given, NO_ONE, typed) == []


def test_cell_of_a_pod_in_its_namespace_has_no_namespace() -> None:
    (cell,) = [column.of_pod(pod("web")) for column in columns_of([], ListOptions(namespace="shop"))][:1]
    assert isinstance(cell, Name)
    assert cell.text == "web"
