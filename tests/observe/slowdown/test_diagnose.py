"""`diagnose` on a node whose victim is slowed by a class: what it learns, what it says, and what it leaves behind."""

import gc
import json
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host
from golden import Golden
from hosts.monitored import run
from hosts.past import sample
from jsonschema import validate

from observe.slowdown.world import CAPACITY, KEY, World
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.node.host.instance import only_instance
from resctrl_hooks.observe.cli import diagnose
from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store as FileStore
from resctrl_hooks.observe.node.slowdown.baseline.store import NAME
from resctrl_hooks.observe.node.slowdown.evidence import reader
from resctrl_hooks.observe.node.slowdown.evidence.perf import counters as perf
from resctrl_hooks.observe.node.slowdown.evidence.perf import watched
from resctrl_hooks.observe.node.slowdown.section import LOCK
from resctrl_hooks.observe.slowdown.diagnosis import CausePod
from resctrl_hooks.observe.slowdown.groups import grouped
from resctrl_hooks.observe.slowdown.session import Session


class Shop:
    """The world of the experiment as `diagnose` sees it: its clock, and baselines in the host's folder."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        self.world = World(host, monitoring=CAPACITY, **more)
        self.store = self.world.store
        self.host = host
        monkeypatch.setattr(reader, "time", SimpleNamespace(monotonic=lambda: self.world.seconds))
        monkeypatch.setattr(diagnose, "Session", self.session)

    def session(self, _: Any, say: Any) -> Session:
        return Session(self.world.node.context(), say, self.world.sleep)

    def limit_bronze(self, value: int) -> None:
        (self.world.node.root / "bronze/schemata").write_text(f"MB:0={value}\n")

    def diagnose(self, *words: str) -> tuple[int, str, str]:
        done = run(self.host, "diagnose", *words)
        return done.exit_code, done.stdout, done.stderr

    def item(self, *words: str) -> Any:
        code, out, _ = self.diagnose(*words, "-o", "json")
        assert code == 0
        value = json.loads(out)
        validate(value, schemas()["diagnose"])
        return value


@pytest.fixture
def shop(host: Host, monkeypatch: pytest.MonkeyPatch) -> Shop:
    found = Shop(host, monkeypatch)
    found.limit_bronze(10)
    return found


STORIES: dict[str, list[tuple[int, str]]] = {
    "new workload": [(10, "shop/cart --for 15s"), (10, "shop/cart --for 60s")],
    "slowed": [(10, "--for 60s"), (100, "--for 60s"), (100, "shop/cart --for 30s")],
    "nobody slowed": [(10, "--for 15s"), (10, "--for 60s"), (10, "--for 15s -o json")],
    "loud time is not learned": [(100, "--for 60s"), (100, "shop/cart --for 15s"), (10, "shop/cart --for 60s")],
    "refusals": [(10, "shop/nobody"), (10, "--experiment"), (10, "shop/cart --for 1s")],
}
"""By name, commands, each with the MB value of bronze meanwhile."""


@pytest.mark.parametrize("name", STORIES)
def test_commands(shop: Shop, golden: Golden, name: str) -> None:
    texts = []
    for limit, words in STORIES[name]:
        shop.limit_bronze(limit)
        code, out, told = shop.diagnose(*words.split())
        if "json" in words:
            value = json.loads(out)
            validate(value, schemas()["diagnose"])
            out = json.dumps({key: one for key, one in value.items() if key not in ("host", "time")}) + "\n"
        texts.append(f"$ diagnose {words}\n{out}{told}exit code {code}")
    text = "\n".join(texts)
    golden(text if name == "slowed" else re.sub(r"  (unknown|not because): .*\n", "", text))


def test_no_file_of_resctrl_stays_open(shop: Shop) -> None:
    gc.disable()  # resctrl can't be unmounted while one is open
    try:
        shop.item("shop/cart", "--for", "15s")
        opened = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.exists()]
    finally:
        gc.enable()
    assert not [one for one in opened if one.startswith(str(shop.world.node.root))]


@pytest.mark.parametrize(
    "refused, note",
    [
        (perf.PodGoneError("gone"), "gone: pod shop/cart ended; other pods are still watched"),
        (perf.TooManyError("many"), "many: pod shop/cart is not watched; others that fit are"),
        (perf.PerfError("no", errno=13), "no (EACCES): pod shop/cart is compared by memory traffic; others are tried"),
    ],
)
def test_note_of_a_pod_has_its_name(shop: Shop, monkeypatch: pytest.MonkeyPatch, refused: Exception, note: str) -> None:
    def refuse(*_: object) -> None:
        raise refused

    monkeypatch.setattr(watched, "PerfCounters", refuse)
    shop.host.configure(slowdown={"enabled": True, "directory": str(shop.store), "perf": True})
    assert note in shop.diagnose("shop/cart", "--for", "15s")[2].splitlines()


def test_lost_time_is_shown_by_culprit_and_by_namespace(shop: Shop, golden: Golden) -> None:
    assert "no pod lost time to others" in shop.diagnose("--for", "60s", "--by", "culprit")[1]
    shop.limit_bronze(100)
    shop.diagnose("--for", "60s")
    for by in ("culprit", "namespace"):
        golden(shop.diagnose("--for", "30s", "--by", by)[1], by)
        value = json.loads(shop.diagnose("--for", "30s", "--by", by, "-o", "json")[1])
        validate(value, schemas()["lost"])
        assert sum(one["seconds"] for one in value["items"]) == pytest.approx(15, rel=0.03)
    assert shop.diagnose("shop/cart", "--experiment", "--by", "culprit")[0] == 2


def test_since_when_the_class_has_its_values_is_printed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    file = host.root / "var/history.sqlite"
    shop = Shop(host, monkeypatch, history={"enabled": True, "file": str(file)})
    shop.limit_bronze(10)
    (shop.world.node.root / "gold/schemata").write_text("MB:0=100\n")
    claim(str(file))
    now = int(time.time())
    one = sample(60, {"cart": 1000.0}, boot=shop.world.context.monitor.boot)
    about = {"kind": "schemata", "key": "schemata", "domain": "mon_L3_00"}
    changes = [
        {**about, "rdt_class": name, "event": f"class {name}: {text}"}
        for name, text in (("gold", "MB 50 to 100"), ("bronze", "MB 100 to 10"))
    ]
    store = FileStore(str(file), write=True)
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME) - 30
    store.add(Sample((now - 30) * 1000, uptime, one.boot, one.host, [*one.rows, *changes]))
    store.close()
    (item,) = shop.item("shop/cart", "--for", "15s")["items"]
    assert [(one["rdtClass"], one["since"], one["change"]) for one in item["classChanges"]] == [
        ("gold", now - 30, "MB 50 to 100 (L3 0)")
    ]
    assert "  class gold since " in shop.diagnose("shop/cart", "--for", "15s")[1]


def test_damaged_baselines_are_set_aside_and_beside_the_resident_process_nothing_is_written(shop: Shop) -> None:
    shop.world.context.ledger.prepare()
    lock = only_instance(f"{shop.host.state}/{LOCK}")
    assert shop.diagnose("--for", "60s")[0] == 0
    assert not (shop.store / NAME).exists()
    os.close(lock)
    shop.store.mkdir(exist_ok=True)
    (shop.store / NAME).write_text("{")
    code, _, told = shop.diagnose("--for", "15s")
    assert (code, told.count("\n"), "damaged" in told) == (0, 1, True)
    assert (shop.store / f"{NAME}.damaged").exists()
    shop.world.is_idle = True
    (item,) = shop.item(KEY, "--for", "15s")["items"]
    assert (item["verdict"], item["reason"]) == ("unknown", "the pod did too little work to tell")


def test_many_pods_of_an_owner_or_a_namespace_are_one_entry() -> None:
    names = [f"ci/build-7d9f8c6b5d-x{letter}zzz" for letter in "bcdf"] + ["ci/a", "web/b", "web/c", "web/d", "web/f"]
    pods = [CausePod(name=name, share=0.1, correlation=None) for name in names]
    outside = CausePod(name="tasks outside pods", share=0.05, correlation=None, outside=True)
    found = {one.name: round(one.share, 3) for one in grouped([*pods, outside])}
    assert found == {"4 pods of ci/build": 0.4, "4 pods of namespace web": 0.4, "ci/a": 0.1, "tasks outside pods": 0.05}
