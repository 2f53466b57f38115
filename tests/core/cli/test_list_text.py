"""The text of `list`, without a node: its columns, sums, order, selection, and the rows of `--watch`."""

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import always
from golden import Golden

from core.cli.test_show_text import squeezed
from resctrl_hooks.core.cli import list as command
from resctrl_hooks.core.cli import list_options
from resctrl_hooks.core.cli.list_options import ListOptions, complete
from resctrl_hooks.core.inventory.account import Account
from resctrl_hooks.core.inventory.models import Container, FreeCounters, Group, Inventory, Pod, Refusal, Rmids
from resctrl_hooks.core.inventory.pod_names import PodName
from resctrl_hooks.core.inventory.podman import UnknownLabelsError
from resctrl_hooks.core.inventory.selector import PodLabels, Selector

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


def test_pods_containers_foreign_groups_and_sums_of_the_node_are_printed(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    details = {"memory": {"class": "b"}, "cgroup": {"memory.current": "1024"}}
    web = pod(
        "web",
        since=NOW - 3600,
        groups=[GROUP],
        containers=[
            container(name="app", threads=2, since=NOW - 60, outside=2, details=details),
            container("d" * 64, alive=False, rdt_class=None, details=details),
            container("e" * 64, rdt_class="gold", details={"without": {"rdt": "x", "memory": "y"}}),
        ],
        priority=5,
        bandwidth_counters={"mbm_total_bytes": {0: True, 1: False}, "mbm_local_bytes": {0: False}},
    )
    bare = pod("[bare]", namespace="", state="waiting", bandwidth_counters={"mbm_local_bytes": {0: False}})
    refusals = [Refusal(time=NOW - 60, namespace="shop", pod=f"p{number}", why="no :x:") for number in "1234566"]
    node = inventory(
        warnings=["the disk is full"],
        rmids=Rmids(total=16, used=6, free_by_class={"": 2, "gold": 1}),
        waiting=["a", "b"],
        bandwidth_counters=[FreeCounters(domain=1, total=4, free=3)],
        account=Account(rmids={"pods": 2}, closids={}, limits={"L3": 16}, free_by_class={}, owners=[]),
        refusals=refusals,
    )
    full = inventory(web, bare, pod("none", state="idle"), foreign=[GROUP])
    cases: list[tuple[str, Inventory, dict[str, Any]]] = [
        ("containers", full, {"every": True}),
        ("pods", full, {}),
        ("wide, of a namespace", full, {"every": True, "form": "wide", "namespace": "shop"}),
        ("wide, without features", inventory(pod("db", containers=[container()])), {"form": "wide"}),
        ("without headers", full, {"headers": False}),
        ("sums", node, {}),
        ("sums of a namespace", node, {"namespace": "shop"}),
        ("sums without headers", node, {"headers": False}),
        ("few sums", inventory(rmids=Rmids(total=4, used=1)), {}),
        ("without resctrl", inventory(pod("a", state="waiting"), problem="no resctrl"), {}),
    ]
    for label, found, options in cases:
        golden("\n".join(printed(capsys, found, **options)), label)


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
    monkeypatch.setattr(PodLabels, "of", lambda _, __, pod: {"app": pod.pod} if pod.pod else None)
    return found


def test_pods_are_in_the_order_of_the_column(gathered: Inventory) -> None:
    orders = {"state": "dcab", "name": "dabc", "class": "dacb", "running": "cadb", "tasks": "cbda", "outside": "cdab"}
    for sort, order in {**orders, "age": "adbc"}.items():
        check_order(gathered, sort, order)


def check_order(gathered: Inventory, sort: str, order: str) -> None:
    """Check the order of pods by a column, and that nothing else of the node changes."""
    for options, expected in ((ListOptions(sort=sort), order), (ListOptions(sort=sort, reverse=True), order[::-1])):
        found = command._gathered(NO_ONE, options)
        assert [pod.pod for pod in found.pods] == [*expected]
    assert found.warnings == ["full"]
    assert (len(found.foreign), len(found.refusals)) == (1, 3)


def test_selection_leaves_foreign_groups_and_other_refusals_out(gathered: Inventory) -> None:
    cases: tuple[tuple[dict[str, Any], str, list[str]], ...] = (
        ({"pods": ("a", "shop/c")}, "ac", ["1"]),
        ({"namespace": "shop"}, "abc", ["1", "2"]),
        ({"namespace": "shop", "pods": ("a", "other/d")}, "a", ["1", "2"]),
        ({"selector": Selector("app in (a, d)")}, "ad", ["1"]),
        ({"selector": Selector("app"), "namespace": "other"}, "d", ["3"]),
    )
    for options, pods, refusals in cases:
        found = command._gathered(NO_ONE, ListOptions(sort="name", **options))
        assert sorted(pod.pod for pod in found.pods) == [*pods]
        assert ([one.why for one in found.refusals], found.foreign) == (refusals, [])
        assert ListOptions(**options).filtered
    nameless = [pod.model_copy(update={"pod": ""}) for pod in gathered.pods]
    with pytest.raises(UnknownLabelsError, match=r"labels are known: .*; name the pods instead"):
        ListOptions(selector=Selector("!app")).chosen(NO_ONE, nameless)


@pytest.mark.parametrize("form", ["table", "name"])
def test_watch_prints_new_changed_and_removed_pods(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden, form: Any
) -> None:
    first = inventory(pod("a"), pod("b", slowdown=1.0), pod("c"))
    looks = [
        inventory(pod("a"), pod("b", slowdown=2.0), pod("c")),  # only a measurement
        inventory(pod("a", state="partly"), pod("b"), pod("c"), pod("n")),
        inventory(pod("a", state="partly"), pod("b"), pod("n")),
    ]
    monkeypatch.setattr(time, "sleep", lambda seconds: print(f"--- {seconds}"))
    monkeypatch.setattr(command, "_gathered", Mock(side_effect=[*looks, KeyboardInterrupt]))
    command._watch(NO_ONE, ListOptions(form=form, watch=True), first, every=False)
    said = squeezed(capsys.readouterr().out.splitlines())
    golden("\n".join("---" if line == "--- 2.0" else line for line in said))


def test_names_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = {"1": ("shop", "web-0"), "2": ("shop", "db-0"), "3": ("other", "web-1")}
    learnt: set[str] = set()
    names = SimpleNamespace(learn=learnt.update, of=lambda key: PodName(*pods[key], "") if key in learnt else None)
    monkeypatch.setattr("resctrl_hooks.core.cli.node.find_settings", lambda config: (config, ""))
    monkeypatch.setattr(list_options, "Context", lambda config, _: {"/my.yaml": 1}[config])
    monkeypatch.setattr("resctrl_hooks.core.inventory.pod_names.PodNames", always(names))
    offered = {
        ("", "shop/"): ["shop/db-0", "shop/web-0"], ("", "web"): ["web-0", "web-1"], ("shop", "w"): ["web-0"],
        ("none", "w"): [], ("", "x"): [],
    }  # fmt: skip
    for (namespace, typed), expected in offered.items():
        params = {"namespace": namespace, "config": "/my.yaml"}
        given: Any = SimpleNamespace(params=params, find_root=lambda params=params: SimpleNamespace(params=params))
        for known, answer in (({*pods}, expected), (None, [])):  # the latter cannot be read
            learnt.clear()
            monkeypatch.setattr(list_options, "recorded", always(known))
            assert complete(given, NO_ONE, typed) == answer
