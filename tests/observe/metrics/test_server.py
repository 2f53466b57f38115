"""The HTTP server: requested formats, connections, /healthz, /diagnoses, invalid addresses, and few descriptors."""

import gzip
import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import LineTooLong
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import say_paths
from hosts.faults import failing
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hosts.processes import wait_until
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families as parse_classic

from observe.metrics.conftest import Served, parse, served
from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.metrics import answers, diagnoses
from resctrl_hooks.observe.metrics import server as serving
from resctrl_hooks.observe.metrics.answers import Answer, Scrape
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.observe.metrics.diagnoses import diagnoses as diagnoses_of
from resctrl_hooks.observe.metrics.selection import EVERYTHING, Selection
from resctrl_hooks.observe.metrics.server import ListenAddressError, Server, parse_address
from resctrl_hooks.observe.slowdown.diagnosis import DIAGNOSES, LIST, Diagnosis


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods in groups; the first one is slowed. The process table is not the host's, as in a metrics pod."""
    with plain_host(tmp_path) as found:
        for number, name in enumerate(("cart", "quiet")):
            found.group(number, name, llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(found.context, KEYS[0])
        yield found


def registry(host: MonitoredHost) -> CollectorRegistry:
    return registry_of(NodeCollector(host.context, lambda problem: None))


@pytest.fixture
def ask(host: MonitoredHost) -> Iterator[Served]:
    with served(registry(host)) as found:
        yield found


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Semaphore, threading.Event]:
    """Let each scrape count at the semaphore, and wait for the event."""
    begun, goes_on = threading.Semaphore(0), threading.Event()

    def wait(*_: object) -> Answer:
        begun.release()
        assert goes_on.wait(300)
        return Answer("200 OK", [], b"")

    monkeypatch.setattr(Scrape, "answer", wait)
    return begun, goes_on


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often the node is read and an answer is written, within a minute in place of a second."""
    found: Counter[str] = Counter()
    collect, write = NodeCollector.collect, answers.Scrape._written

    def count(kind: str, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        found[kind] += 1
        return real(*given, **named)

    monkeypatch.setattr(NodeCollector, "collect", lambda self: count("read", collect, self))
    monkeypatch.setattr(answers.Scrape, "_written", lambda *given: count("written", write, *given))
    monkeypatch.setattr(answers, "_FRESH_SECONDS", 60.0)
    return found


OPENMETRICS, TEXT = "application/openmetrics-text; version=1.0.0", "text/plain; version=0.0.4"
WEIGHTED = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
UNKNOWN = [f"application/openmetrics-text; version={one}" for one in ("x", "", "1.x", "9" * 5000, "1.0.0.0")]
FORMATS = {OPENMETRICS: OPENMETRICS, WEIGHTED: "application/openmetrics"}
FORMATS |= dict.fromkeys(("text/plain;version=0.0.4", "*/*", "", *UNKNOWN), TEXT)


@pytest.mark.parametrize("accept, kind", FORMATS.items())
def test_response_has_requested_format(ask: Served, accept: str, kind: str) -> None:
    status, headers, body = ask("/metrics", Accept=accept)
    assert status == 200
    assert headers["Content-Type"].startswith(kind)
    parsed = parse if "openmetrics" in kind else parse_classic
    assert any(family.name == "l3_llc_occupancy_bytes" for family in parsed(body.decode()))


def test_each_page_has_its_answer_and_other_methods_do_not_read_the_node(ask: Served, work: Counter[str]) -> None:
    status, headers, _ = ask("/metrics", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert (ask("/metrics", "OPTIONS")[0], work["read"]) == (200, 0)
    pages = {"/metrics": (200, b""), "/healthz": (200, b"ok\n"), "/else": (404, b"the metrics are at /metrics\n")}
    for path, (expected, text) in pages.items():
        status, headers, body = ask(path)
        assert (status, text in body) == (expected, True)
        status, of_head, nothing = ask(path, "HEAD")
        assert (status, of_head["Content-Type"], nothing) == (expected, headers["Content-Type"], b"")
        assert int(of_head["Content-Length"]) > 0
    _, headers, body = ask("/metrics", Accept_Encoding="gzip")
    assert (headers["Content-Encoding"], headers["Content-Length"]) == ("gzip", str(len(body)))
    assert b"l3_llc_occupancy_bytes" in gzip.decompress(body)
    assert "Content-Encoding" not in ask("/metrics")[1]


def test_health_needs_no_resctrl(host: MonitoredHost, ask: Served) -> None:
    host.resctrl.rename(host.resctrl.parent / "elsewhere")
    assert ask("/healthz")[::2] == (200, b"ok\n")
    assert b"resctrl_scrape_ok 0.0" in ask("/metrics")[2]


def test_disconnected_client_causes_no_traceback(host: MonitoredHost, capfd: pytest.CaptureFixture[str]) -> None:
    with Server(("127.0.0.1", 0), registry(host)) as server:
        for error, said in (
            (ConnectionResetError(104, "reset"), ""),
            (BrokenPipeError(32, "pipe"), ""),
            (TimeoutError(), ""),
            (KeyError("x"), "resctrl-hook: scrape failed: KeyError: 'x'\n"),
        ):
            try:
                raise error
            except type(error):
                server.handle_error(None, ("127.0.0.1", 1))
            assert capfd.readouterr() == ("", said)


def test_server_ends_at_signal(host: MonitoredHost) -> None:
    command = host.command("metrics", "--listen", "127.0.0.1:0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "http://127.0.0.1:" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_address_is_parsed_or_refused_with_the_reason() -> None:
    addresses = {"9777": ("127.0.0.1", 9777), ":9777": ("127.0.0.1", 9777), "localhost:1": ("127.0.0.1", 1)}
    addresses |= {"0.0.0.0:1": ("0.0.0.0", 1), "[::1]:65535": ("::1", 65535)}
    assert {text: parse_address(text) for text in addresses} == addresses
    for why, texts in {
        "the port is missing": ("", "1.2.3.4", "127.0.0.1:x", "a:b"),
        "not an IP address": ("host:1", "::1"),
        "the highest port is 65535": ("127.0.0.1:65536", "9" * 5000),
    }.items():
        for text in texts:
            with pytest.raises(ListenAddressError, match=why):
                parse_address(text)


def test_port_in_use_is_reported(host: MonitoredHost) -> None:
    with Server(("127.0.0.1", 0), registry(host)) as server:
        done = host.run("metrics", "--listen", f"127.0.0.1:{server.server_address[1]}")
    assert done.exit_code == 1
    assert "(EADDRINUSE); another process listens there" in done.stderr


def test_connections_beyond_limit_end_oldest(host: MonitoredHost, ask: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 3)
    slow = ask.connections(5)
    for connection in slow:
        connection.sendall(b"GET /metrics")
    assert ask("/healthz")[0] == 200
    assert slow[0].recv(1) == b""
    for connection in slow:
        connection.close()


def test_connection_with_a_complete_request_outlives_slow_ones(
    ask: Served, monkeypatch: pytest.MonkeyPatch, held: tuple[threading.Semaphore, threading.Event]
) -> None:
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 3)
    begun, goes_on = held
    (scraper,) = ask.connections(1)
    scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert begun.acquire(timeout=300)
    slow = ask.connections(5)
    assert slow[0].recv(1) == b"", "the oldest of the slow ones is closed"
    goes_on.set()
    assert scraper.recv(9) == b"HTTP/1.0 "
    for connection in (scraper, *slow):
        connection.close()


def test_hundred_scrapes_at_once_share_one_answer(ask: Served, work: Counter[str]) -> None:
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(ask("/metrics")[0])) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 100
    assert work == {"read": 1, "written": 1}


@pytest.mark.parametrize(
    "data",
    [
        b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 65_000) for n in range(98)) + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"X: a\r\n" * 5000 + b"\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: ".ljust((16 << 10) + 1, b"a"),
    ],
    ids=["long headers", "many headers", "a long line", "one byte above the limit"],
)
def test_long_request_head_is_refused_before_it_is_read(ask: Served, data: bytes) -> None:
    answer = ask.raw(data)
    is_reset = answer == b"" and len(data) > 17_000  # unread data can reset the connection first
    assert is_reset or answer.split()[1] == b"431"


def test_head_of_a_request_is_read_up_to_one_byte_beyond_its_limit() -> None:
    assert serving._Head(io.BytesIO())._left == serving._LONGEST_HEAD
    for left, limit, read in ((0, -1, 1), (5, 3, 3), (5, 6, 6), (5, 99, 6), (5, -1, 6)):
        stream = io.BytesIO(b"x" * 100)
        head = serving._Head(stream)
        head._left = left
        if read > left:
            with pytest.raises(LineTooLong):
                head.readline(limit)
        else:
            assert (head.readline(limit), head._left) == (b"x" * read, left - read)
        assert stream.tell() == read


def test_source_is_an_address_or_an_ipv6_network() -> None:
    sources = {"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "fe80::1%eth0": "fe80::/64"}
    sources |= dict.fromkeys(("2001:db8::1", "2001:db8:0:0:ffff::2"), "2001:db8::/64")
    sources["2001:db8:0:1::1"] = "2001:db8:0:1::/64"
    assert {host: serving.source_of(host) for host in sources} == sources


def test_closed_connection_counts_until_its_threads_end(ask: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 2)
    monkeypatch.setattr(serving, "_MOST_ENDING", 1)
    goes_on = threading.Event()
    ended: list[object] = []
    monkeypatch.setattr(serving, "_end", ended.append)  # threads that take their time
    slow = ask.connections(4)
    assert slow[3].recv(1) == b"", "refused: the third has closed the first, whose threads still live"
    assert len(ended) == 1
    goes_on.set()
    for connection in slow:
        connection.close()


def test_source_with_many_requests_keeps_no_other_source_out(
    ask: Served, monkeypatch: pytest.MonkeyPatch, held: tuple[threading.Semaphore, threading.Event]
) -> None:
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 4)
    monkeypatch.setattr(serving, "_FEW", 2)
    begun, goes_on = held
    answers: list[bytes] = []
    request = b"GET /metrics HTTP/1.0\r\n\r\n"
    greedy = [threading.Thread(target=lambda: answers.append(ask.raw(request, "127.0.0.2"))) for _ in range(4)]
    for thread in greedy:
        thread.start()
    for _ in greedy:
        assert begun.acquire(timeout=300)
    assert ask.raw(request, "127.0.0.2") == b"", "at the limit, one more of this source is refused"
    prometheus = threading.Thread(target=lambda: answers.append(ask.raw(request)))
    prometheus.start()
    assert begun.acquire(timeout=300), "another source is served"
    goes_on.set()
    for thread in (*greedy, prometheus):
        thread.join()
    assert [answer.split()[1] for answer in answers] == [b"200"] * 5, "no complete request was given up"


def test_source_with_few_connections_has_some_more_places() -> None:
    for own, others, has in ((0, 143, True), (0, 144, False), (7, 0, True), (8, 0, False)):
        serving_now = [serving._Connection("a")] * own + [serving._Connection("b")] * others
        assert serving._has_place("a", serving_now) is has


def test_slow_request_is_ended(ask: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte now and then satisfies a timeout of each read."""
    monkeypatch.setattr(serving, "_REQUEST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", ask.port)) as slow:
        slow.settimeout(10)
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert slow.recv(1) == b""


def test_open_connection_does_not_delay_the_end(ask: Served) -> None:
    before = set(threading.enumerate())
    with socket.create_connection(("127.0.0.1", ask.port)):
        wait_until(lambda: any(isinstance(thread, threading.Timer) for thread in threading.enumerate()))
        assert all(thread.daemon for thread in threading.enumerate() if thread not in before)


@pytest.mark.parametrize("kind", ["connection", "deadline"])
def test_connections_without_a_thread_do_not_count(ask: Served, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 2)
    monkeypatch.setattr(serving, "_MOST_ENDING", 1)
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if isinstance(thread, threading.Timer) if kind == "deadline" else "process_request" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as shortage:
        shortage.setattr(threading.Thread, "start", fail)
        for _ in range(4):
            assert ask.raw(b"GET /healthz HTTP/1.0\r\n\r\n") == b""
    assert ask("/healthz")[0] == 200


def asked(host: MonitoredHost, method: str = "GET", selection: Selection = EVERYTHING) -> tuple[int, str, bytes]:
    with served(CollectorRegistry(), {DIAGNOSES: diagnoses_of(host.context, selection)}) as found:
        status, headers, body = found(DIAGNOSES, method)
        return status, headers["Content-Type"], body


def test_document_has_the_diagnosis_with_the_names_of_pods(host: MonitoredHost) -> None:
    status, kind, body = asked(host)
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
    status, _, body = asked(host)
    found = json.loads(body)
    assert (status, found["judged"], found["items"]) == (200, False, [])


def test_other_methods_unselected_namespaces_and_unreadable_records_get_no_diagnosis(host: MonitoredHost) -> None:
    assert asked(host, "HEAD") == (200, "application/json", b"")
    assert asked(host, "POST")[0] == 405
    assert json.loads(asked(host, selection=Selection(namespaces=["other"]))[2])["items"] == []
    with failing(diagnoses, "judged", LedgerError("the records are unreadable")):
        status, kind, body = asked(host)
    assert (status, kind) == (503, "text/plain; charset=utf-8")
    (line,) = body.decode().splitlines()
    assert line.startswith("the records are unreadable; ")


_DOMAINS = 24


@pytest.fixture
def host_of_many_files(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a node whose pods have more counter files than the process has descriptors besides its reserve."""
    with plain_host(tmp_path) as found:
        counters = ("llc_occupancy", "mbm_total_bytes")
        files: dict[str, object] = {f"mon_L3_{one:02}/{name}": one for one in range(_DOMAINS) for name in counters}
        say_paths(found.resctrl, files)
        for number in range(len(KEYS)):
            say_paths(found.group(number, f"web-{number}"), files)
        yield found


def counted_pods(port: int) -> set[tuple[str, int]]:
    """Return each pod with the number of its domains, as another host of the loopback network reads them."""
    with socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0)) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = client.makefile().read()
    pods = re.findall(r'^l3_mbm_total_bytes_total\{.*pod="(web-\d)"', text, re.MULTILINE)
    return {(pod, pods.count(pod)) for pod in pods}


@pytest.mark.ci
def test_most_connections_leave_every_pod_its_counters(host_of_many_files: MonitoredHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = ["x", "--config", str(host_of_many_files.config), "metrics", "--listen", f"127.0.0.1:{port}"]
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512)); "
    code += f"sys.argv = {arguments!r}; from resctrl_hooks.core.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(300):
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                break
            time.sleep(0.1)
        whole = {(f"web-{number}", _DOMAINS) for number in range(len(KEYS))}
        with ExitStack() as idle:
            for _ in range(140):
                client = idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
                client.send(b"GET /metrics HTTP/1.1\r\n")
            assert counted_pods(port) == whole
        time.sleep(1.2)  # answers are shared for a second
        assert counted_pods(port) == whole
    finally:
        process.terminate()
        process.wait()
