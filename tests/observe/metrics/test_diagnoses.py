"""The document /diagnoses of the metrics server, from the file of the sampling process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import failing
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host
from prometheus_client import CollectorRegistry

from observe.metrics.conftest import served
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.metrics import diagnoses
from resctrl_hooks.observe.metrics.diagnoses import diagnoses as document
from resctrl_hooks.observe.metrics.selection import EVERYTHING, Selection
from resctrl_hooks.observe.slowdown.diagnosis import DIAGNOSES, LIST, Diagnosis


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods in groups; the first one is slowed. The process table is not the host's, as in a metrics pod."""
    with plain_host(tmp_path) as found:
        for number, name in enumerate(("cart", "quiet")):
            found.group(number, name, llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(found.context, KEYS[0])
        yield found


def ask(host: MonitoredHost, method: str = "GET", selection: Selection = EVERYTHING) -> tuple[int, str, bytes]:
    with served(CollectorRegistry(), {DIAGNOSES: document(host.context, selection)}) as found:
        status, headers, body = found(DIAGNOSES, method)
        return status, headers["Content-Type"], body


def test_document_has_the_diagnosis_with_the_names_of_pods(host: MonitoredHost) -> None:
    status, kind, body = ask(host)
    assert (status, kind) == (200, "application/json")
    found: dict[str, Any] = json.loads(body)
    assert (found["kind"], found["judged"]) == (LIST, True)
    (item,) = found["items"]
    assert (item["name"], item["key"], item["verdict"], item["ratio"]) == ("shop/cart", KEYS[0], "slowed", 1.6)
    assert [(one["cause"], one["state"]) for one in item["causes"]] == [("memory-bandwidth", "supported")]
    assert item["causes"][0]["pods"] == [{"name": "noisy", "share": 1.0, "correlation": None, "outside": False}]
    assert item["advice"]
    assert Diagnosis.model_validate(item).method == "perf"


@pytest.mark.parametrize("causes", [None, {"memory-bandwidth": ["noisy"]}], ids=["no process", "another version's"])
def test_node_without_a_readable_file_of_a_sampling_process_says_so(host: MonitoredHost, causes: Any) -> None:
    path = Path(host.context.settings.state_dir, SLOWDOWN_STATUS)
    record = json.loads(path.read_text())
    record["pods"][KEYS[0]]["causes"] = causes
    path.write_text(json.dumps(record))
    if causes is None:
        path.unlink()
    status, _, body = ask(host)
    found = json.loads(body)
    assert (status, found["judged"], found["items"]) == (200, False, [])


def test_head_has_no_body_other_methods_are_refused_and_unselected_namespaces_not_served(host: MonitoredHost) -> None:
    assert ask(host, "HEAD") == (200, "application/json", b"")
    assert ask(host, "POST")[0] == 405
    assert json.loads(ask(host, selection=Selection(namespaces=["other"]))[2])["items"] == []


def test_unreadable_records_are_one_line(host: MonitoredHost) -> None:
    with failing(diagnoses, "judged", LedgerError("the records are unreadable")):
        status, kind, body = ask(host)
    assert (status, kind) == (503, "text/plain; charset=utf-8")
    (line,) = body.decode().splitlines()
    assert line.startswith("the records are unreadable; ")
