"""`diagnose` on a node whose victim is slowed by a class: what it learns, what it says, and what it leaves behind."""

import gc
import json
import os
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


def test_new_workload_is_unknown_and_then_normal(shop: Shop) -> None:
    (first,) = shop.item("shop/cart", "--for", "15s")["items"]
    assert (first["verdict"], first["ratio"]) == ("unknown", None)
    assert "no baseline yet" in first["reason"]
    assert (first["disturbance"], first["baselineSeconds"], first["waits"]) == ("", 15.0, 1.0)
    (second,) = shop.item("shop/cart", "--for", "60s")["items"]
    assert (second["verdict"], second["method"]) == ("normal", "traffic")
    assert second["ratio"] == pytest.approx(1.0, abs=0.05)


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


def test_slowed_pod_is_found_with_its_cause_and_what_helps(shop: Shop) -> None:
    shop.diagnose("--for", "60s")
    shop.limit_bronze(100)
    code, out, _ = shop.diagnose("--for", "60s")
    assert code == 0
    assert "shop/cart: slowed, its work takes 2.00" in out
    assert "because: memory-bandwidth (2.00 times): memory domain 0 is loaded to 85%; by tasks outside pods" in out
    assert "CPU seconds per GB of traffic (traffic: an estimate)" in out
    assert "not because: cpu-limit" not in out  # this cgroup has no throttled_usec
    assert "unknown: cpu-limit: cpu.stat has no throttled_usec" in out
    (item,) = shop.item("--for", "30s")["items"]
    assert (item["domain"], item["load"]) == (0, pytest.approx(0.85, abs=0.01))
    assert {one["cause"]: one["state"] for one in item["causes"]}["memory-bandwidth"] == "supported"


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


def test_without_a_slowed_pod_the_waits_loads_and_baselines_are_printed(shop: Shop) -> None:
    code, out, _ = shop.diagnose("--for", "15s")
    assert code == 0
    waits, load, known, need = out.splitlines()
    assert waits == "no pod of 1 is slowed by waits for CPUs, memory or disks, or by its limits"
    assert load.startswith("memory domain 0: load ")
    assert known == "0 of 1 pods have a baseline, so costs of work are not compared yet"
    assert need.startswith("each needs 10 quiet samples of 10 s (about 15 s more at the present rate): wait with")
    shop.diagnose("--for", "60s")
    assert shop.diagnose("--for", "15s")[1].splitlines()[2:] == [
        "1 of 1 pods have a baseline; their work costs no more than in quiet times"
    ]
    value = shop.item("--for", "15s")
    assert (value["items"], value["pods"], value["withBaseline"]) == ([], 1, 1)


def test_loud_time_is_not_learned(shop: Shop) -> None:
    shop.limit_bronze(100)
    shop.diagnose("--for", "60s")
    (item,) = shop.item("shop/cart", "--for", "15s")["items"]
    assert (item["verdict"], item["baselineSamples"]) == ("unknown", 0)
    why = "5 of 5 samples were not quiet; most often: memory domain 0 is loaded to 85% (limit 50%)"
    assert item["disturbance"] == why
    out = shop.diagnose("shop/cart", "--for", "15s")[1]
    assert f"  no baseline: {why}\n" in out
    need = "A baseline needs 10 quiet samples of 10 s: wait with `slowdown.enabled` or the history on, or use a longer"
    assert out.count(need) == 1
    shop.limit_bronze(10)
    assert need not in shop.diagnose("shop/cart", "--for", "60s")[1]


def test_beside_the_resident_process_nothing_is_written(shop: Shop) -> None:
    shop.world.context.ledger.prepare()
    lock = only_instance(f"{shop.host.state}/{LOCK}")
    assert shop.diagnose("--for", "60s")[0] == 0
    assert not (shop.store / NAME).exists()
    del lock


def test_damaged_baselines_are_set_aside_with_one_line(shop: Shop) -> None:
    shop.store.mkdir()
    (shop.store / NAME).write_text("{")
    code, _, told = shop.diagnose("--for", "15s")
    assert (code, told.count("\n")) == (0, 1)
    assert "damaged" in told
    assert (shop.store / f"{NAME}.damaged").exists()


def test_unknown_pod_and_wrong_use_have_their_exit_codes(shop: Shop) -> None:
    assert shop.diagnose("shop/nobody")[0] == 1
    assert shop.diagnose("--experiment")[0] == 2
    assert shop.diagnose("shop/cart", "--for", "1s")[0] == 2


def test_idle_pod_is_unknown(shop: Shop) -> None:
    shop.world.is_idle = True
    (item,) = shop.item(KEY, "--for", "15s")["items"]
    assert (item["verdict"], item["reason"]) == ("unknown", "the pod did too little work to tell")
