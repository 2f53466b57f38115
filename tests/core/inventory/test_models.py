"""Values of the report models, amounts, names in metrics and from Podman, selectors, and reads of the ledger."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import Host
from golden import Golden
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.core.inventory import pod_names, podman, selector
from resctrl_hooks.core.inventory.amounts import scaled, with_margin
from resctrl_hooks.core.inventory.models import Container, Group, Inventory, Pod, Rmids
from resctrl_hooks.core.inventory.pod_names import PodName, PodNames
from resctrl_hooks.core.inventory.podman import PodmanNames, UnknownLabelsError, podman_labels, podman_names
from resctrl_hooks.core.inventory.records import classes_of, members_of, recorded
from resctrl_hooks.core.inventory.selector import PodLabels, Selector, labels_of
from resctrl_hooks.core.node.errors import InputError


def container(name: str = "", rdt_class: str | None = None, *, alive: bool = True, outside: int = 0) -> Container:
    return Container(id="c" * 64, name=name, alive=alive, rdt_class=rdt_class, outside=outside)


def group(rdt_class: str = "", tasks: int = 0) -> Group:
    return Group(rdt_class=rdt_class, name="g", path="/g", origin="created", tasks=tasks)


def pod(**values: Any) -> Pod:
    return Pod(**{"key": "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "state": "assigned", **values})


def test_pod_sums_its_groups_and_running_containers_and_has_a_name() -> None:
    app, other, nameless = container("a", "gold", outside=2), container("b", "", outside=1), container()
    one = pod(groups=[group("silver", 3), group("", 4)], containers=[app, other, container("c", alive=False)])
    assert (one.classes, one.tasks, one.outside) == (["", "gold", "silver"], 7, 3)
    assert one.living == [app, other]
    assert one.model_dump(by_alias=True)["rdtClasses"] == one.classes
    assert not {"pods", "waiting", "impossible"} & Inventory(resctrl="/r", pods=[one]).model_dump().keys()
    assert pod(namespace="shop", pod="web").name == "shop/web"
    assert [pod(pod="web").name, pod(containers=[app, other]).name] == ["web", "a"]
    assert [pod(namespace="shop").name, pod(containers=[nameless, other]).name] == ["3f0ac7f2-8a3"] * 2


def test_free_rmids_are_those_of_all_classes_or_of_each() -> None:
    for found, free, gold, text, more in (
        (Rmids(total=8, used=3), 5, 5, "", {}),
        (Rmids(total=2, used=3), 0, 0, "", {}),
        (Rmids(total=16, used=3, free_by_class={"": 2, "gold": 1}), 3, 1, "root class 2, gold 1",
         {"freeByClass": {"": 2, "gold": 1}}),
    ):  # fmt: skip
        assert (found.free, found.free_in("gold"), found.classes_text()) == (free, gold, text)
        assert found.model_dump(by_alias=True) == {"total": found.total, "used": 3, "free": free, **more}


def test_amounts_have_three_digits_and_a_prefix_which_a_margin_shares(golden: Golden) -> None:
    values = (0, 1.5, -1.5e6, 9.99, 9.995, 99.94, 99.95, 999, 999.4, 999.5, 999.7e6, 1.25e9, 2e18, 2e21)
    margins = ((37e6, 20e6), (1.5e6, 4.25e6), (0, 0), (2e9, 3e7), (999, 1), (1000, 1), (10, 1), (9.9, 1), (-2000, 100))
    found = [f"{value}: {scaled(value, 'B')}" for value in values]
    found += [f"{value} {margin}: {with_margin(value, margin, 'B/s')}" for value, margin in (*margins, (2e21, 1e21))]
    golden("\n".join(found))


def test_class_of_a_pod_is_that_with_the_shortest_name(tmp_path: Path) -> None:
    with plain_host(tmp_path, "gold/mon_groups", "silver/mon_groups") as host:
        host.group(0, "root")
        host.group(1, "gold", rdt_class="gold")
        for rdt_class in ("silver", "gold"):
            host.group(2, "two", rdt_class=rdt_class)
        with host.context.monitor.hold(KEYS[3]) as locked:
            locked.add_member("c" * 64, {})
        assert classes_of(host.context) == dict(zip(KEYS, ("", "gold", "gold", ""), strict=False))
        host.context.ledger.mark("waiting", KEYS[4])
        assert recorded(host.context) == {*KEYS[:5]}
        Path(host.context.ledger.folder, "pods", KEYS[3], f"c-{'c' * 64}").write_text("damaged")
        assert members_of(host.context, KEYS[3]) == {"c" * 64: {}}


LINES = "a\tweb,other\t\t\nb\tdb\tp\tshop\nc\tlost\tq\t\nd\tnameless\t\tr\nbroken\tline\ne\ttoo\tmany\tfields\there\n"


def prints(text: str, status: int = 0) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({text!r}, end=''); raise SystemExit({status})")


def test_names_of_podman_are_its_answers_first_names(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"a": "web", "b": "db", "c": "lost", "d": "nameless"}
    assert podman_names(prints(LINES)) == PodmanNames(names, {"p": "shop"})
    for command in (("/nowhere/podman",), prints(LINES, 125), ("sleep", "9")):
        monkeypatch.setattr(podman, "_SECONDS", 0.1 if command[0] == "sleep" else 20)
        assert podman_names(command) == PodmanNames({}, {})


def test_labels_of_podman_are_those_of_containers_and_of_pods(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = prints('a\tp\t{"app":"web","x":"1"}\nb\t\tnull\n'), prints('p\t\t{"app":"pod"}\n')
    found = {"a": {"app": "web", "x": "1"}, "p": {"app": "pod", "x": "1"}, "b": {}}
    assert podman_labels(commands) == found
    for command in (("/nowhere/podman",), prints("", 125)):
        with pytest.raises(UnknownLabelsError, match=r"containers are unknown: .*(No such|125).*; name the pods"):
            podman_labels((command,))
    ask = Mock(return_value=found)
    monkeypatch.setattr(selector, "is_podmans", lambda _, key: key != "kubernetes")
    monkeypatch.setattr(selector, "podman_labels", ask)
    labels = PodLabels()
    pods = [Pod(key=key, state="assigned") for key in ("p", "b", "new", "kubernetes")]
    assert [labels.of(host.context(), pod) for pod in pods] == [found["p"], {}, None, None]
    assert ask.call_count == 1


LABELS = {"app": "web", "app.kubernetes.io/tier": "front", "empty": ""}


def test_selector_matches_as_in_kubernetes(golden: Golden) -> None:
    found = []
    for text in (
        *("app=web", "app == web", "app=db", "app!=db", "app!=web", "other!=web", "app in (db, web)", "app in (db)"),
        *("app notin (db,cache)", "app notin (web)", "other notin (db)", "app", "other", "!other", "! app", "empty="),
        *("app.kubernetes.io/tier=front,app in (web,db),!debug", "app=web,debug"),
        *("", "=web", "app in web", "app in (a", "a=b,,c=d", "app<3", "a b"),
    ):
        try:
            found.append(f"{text}: {Selector(text).matches(LABELS)}")
        except ValueError as error:
            found.append(f"{text}: {error}")
    golden("\n".join(found))


def test_labels_are_those_of_the_first_container_that_has_any(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = {"gone": {}, "app": {"app": "web"}, "other": {"app": "db"}}
    unreadable = Mock(side_effect=InputError("cannot read it"))
    monkeypatch.setattr(selector, "recorded_workload", lambda id_, *_: id_)
    monkeypatch.setattr(selector, "pod_labels", lambda id_, *_: known[id_] if id_ in known else unreadable())
    host.context().ledger.prepare()
    for ids, labels in ((("broken", "gone", "app", "other"), {"app": "web"}), (("broken", "gone"), {}), ((), {})):
        containers = [Container(id=id_, alive=True, rdt_class="", outside=0) for id_ in ids]
        assert labels_of(host.context(), pod(key="key", containers=containers)) == labels


WEB, DB, GONE = "a" * 64, "b" * 64, "c" * 64
POD = "d" * 64


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path) as found:
        yield found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return the question to Podman, which knows a pod, and a container of a plain root folder."""
    question = Mock(return_value=PodmanNames({DB: "db"}, {POD: "shop"}))
    monkeypatch.setattr(pod_names, "podman_names", question)
    return question


def test_podman_is_asked_once_for_names_that_no_record_storage_or_program_has(
    plain: MonitoredHost, tmp_path: Path, asked: Mock
) -> None:
    def recorded_container(key: str, id_: str) -> None:
        with plain.context.monitor.hold(key) as locked:
            say(Path(locked.ensure_group().path), llc_occupancy=1)
            locked.add_member(id_, {"runtime": "podman", "bundle": f"{tmp_path}/overlay-containers/{id_}/userdata"})

    def names_of(*keys: str) -> list[PodName]:
        names.learn(keys)
        return [names.of(key) for key in keys]

    plain.pod(0, "web-0")
    recorded_container(WEB, WEB)
    (tmp_path / "overlay-containers").mkdir()
    entries = [{"id": WEB, "names": ["web"], "metadata": "{}"}]
    (tmp_path / "overlay-containers/containers.json").write_text(json.dumps(entries))
    job = "job-17-of-the-batch"
    plain.context.monitor.ensure_group(job)
    names = PodNames(plain.context)
    named = [PodName("shop", "web-0", ""), PodName("", "web", "web"), PodName("", job, "")]
    assert (names_of(KEYS[0], WEB, job), asked.call_count) == (named, 0)
    for key, id_ in ((DB, DB), (POD, WEB), (GONE, GONE)):
        recorded_container(key, id_)
    unknown = PodName("", "c" * 12, "")  # its short id
    for _ in range(3):
        assert names_of(DB, POD, GONE) == [PodName("", "db", "db"), PodName("", "shop", ""), unknown]
    assert asked.call_count == 1


def test_names_of_removed_keys_are_forgotten_and_known_ones_kept(plain: MonitoredHost, asked: Mock) -> None:
    plain.pod(0, "web-0")
    plain.pod(1, "db-0")
    names = PodNames(plain.context)
    names.learn(KEYS[:2])
    plain.context.ledger.remove_pod(KEYS[1])
    names.learn(KEYS[:2])
    assert [names.of(key).whole for key in KEYS[:2]] == ["shop/web-0", "shop/db-0"]
    names.learn(KEYS[:1])
    assert [names.of(key).whole for key in KEYS[:2]] == ["shop/web-0", KEYS[1][:12]]
    assert asked.call_count == 0
