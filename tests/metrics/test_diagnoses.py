"""The document /diagnoses of the metrics server, from the file of the sampling process."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hosts.faults import failing
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host
from prometheus_client import CollectorRegistry

from resctrl_hooks.metrics import diagnoses
from resctrl_hooks.metrics.diagnoses import diagnoses as document
from resctrl_hooks.metrics.selection import EVERYTHING, Selection
from resctrl_hooks.metrics.server import Server
from resctrl_hooks.node.errors import LedgerError
from resctrl_hooks.node.names import SLOWDOWN_STATUS
from resctrl_hooks.slowdown.diagnosis import DIAGNOSES, LIST, Diagnosis


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods in groups; the first one is slowed. The process table is not the host's, as in a metrics pod."""
    with plain_host(tmp_path) as found:
        for number, name in enumerate(("cart", "quiet")):
            found.group(number, name, llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(found.context, KEYS[0])
        yield found


@contextmanager
def served(host: MonitoredHost, selection: Selection = EVERYTHING) -> Iterator[http.client.HTTPConnection]:
    server = Server(("127.0.0.1", 0), CollectorRegistry(), {DIAGNOSES: document(host.context, selection)})
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=300)
    connection.auto_open = True
    try:
        yield connection
    finally:
        connection.close()
        server.shutdown()
        server.server_close()
        thread.join()


def ask(host: MonitoredHost, method: str = "GET", selection: Selection = EVERYTHING) -> tuple[int, str, bytes]:
    with served(host, selection) as connection:
        connection.request(method, DIAGNOSES)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


def test_document_has_the_diagnosis_with_the_names_of_pods(host: MonitoredHost) -> None:
    status, kind, body = ask(host)
    assert (status, kind) == (200, "application/json")
    found: dict[str, Any] = json.loads(body)
    assert (found["kind"], found["judged"]) == (LIST, True)
    (item,) = found["items"]
    assert (item["name"], item["key"], item["verdict"], item["ratio"]) == ("shop/cart", KEYS[0], "slowed", 1.6)
    assert [(one["cause"], one["state"]) for one in item["causes"]] == [("memory-bandwidth", "supported")]
    assert item["causes"][0]["pods"] == [{"name": "noisy", "share": 1.0, "correlation": None}]
    assert any("guard" in line for line in item["advice"])
    assert Diagnosis.model_validate(item).method == "perf"


def test_node_without_a_sampling_process_says_so(host: MonitoredHost) -> None:
    Path(host.context.settings.state_dir, SLOWDOWN_STATUS).unlink()
    status, _, body = ask(host)
    found = json.loads(body)
    assert (status, found["judged"], found["items"]) == (200, False, [])


def test_file_of_another_version_is_not_judged(host: MonitoredHost) -> None:
    path = Path(host.context.settings.state_dir, SLOWDOWN_STATUS)
    record = json.loads(path.read_text())
    record["pods"][KEYS[0]]["causes"] = {"memory-bandwidth": ["noisy"]}
    path.write_text(json.dumps(record))
    assert json.loads(ask(host)[2])["judged"] is False


def test_unselected_namespace_is_not_served(host: MonitoredHost) -> None:
    assert json.loads(ask(host, selection=Selection(namespaces=["other"]))[2])["items"] == []


def test_head_has_no_body_and_other_methods_are_refused(host: MonitoredHost) -> None:
    assert ask(host, "HEAD") == (200, "application/json", b"")
    assert ask(host, "POST")[0] == 405


def test_unreadable_records_are_one_line(host: MonitoredHost) -> None:
    with failing(diagnoses, "judged", LedgerError("the records are unreadable")):
        status, kind, body = ask(host)
    assert (status, kind) == (503, "text/plain; charset=utf-8")
    (line,) = body.decode().splitlines()
    assert line.startswith("the records are unreadable; ")
