"""An API server as far as `kubectl resctrl` asks it: lists of pods and nodes, and the pod proxy.

The paths, the pagination and the refusals are those of Kubernetes' API (https://kubernetes.io/docs/reference/using-api/).
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hosts.http_server import Answer, Request, http_server

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}, {{name: gone, context: {{cluster: gone, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "{server}"}}}}, {{name: gone, cluster: {{server: "http://127.0.0.1:1"}}}}]
users: [{{name: me, user: {{token: secret}}}}]
"""
Page = Callable[[int], str]
"""The answer of a node's metrics pod to its Nth request, counted from 0."""


@dataclass
class FakeCluster:
    """Nodes with their metrics pods; change its fields to change the answers."""

    pages: dict[str, Page] = field(default_factory=dict)  # by node, its metrics
    diagnoses: dict[str, str] = field(default_factory=dict)  # by node, its document; an old version has none
    pods: list[tuple[str, str, str, dict[str, str]]] = field(default_factory=list)  # namespace, name, node, labels
    forbidden: set[str] = field(default_factory=set)  # resources that this user may not read, such as pods/proxy
    hang: set[str] = field(default_factory=set)  # nodes whose metrics pod never answers
    recorded: Callable[[str], str] = lambda query: "{}"  # the answer of Prometheus to a query
    labels: dict[str, dict[str, str]] = field(default_factory=dict)  # by node, its labels
    extra_nodes: list[str] = field(default_factory=list)
    kubeconfig: Path = Path()
    ended: threading.Event = field(default_factory=threading.Event)
    at_once: int = 0
    most_at_once: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    packed: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """By node, the Content-Encoding and the body of its answers, in place of ``pages``."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def options(self) -> list[str]:
        """Return the options that lead a command here."""
        return ["--kubeconfig", str(self.kubeconfig)]

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, str]:
        """Return status and body of a GET."""
        if path.rstrip("/") == "/version":
            return 200, json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.2"})
        words = path.strip("/").split("/")
        if "services" in words and "proxy" in words:
            return 200, self.recorded(query["query"])
        if "proxy" in words:
            node = words[words.index("pods") + 1].partition(":")[0].removeprefix("metrics-")
            return self._proxy(node, words[words.index("proxy") + 1])
        resource = words[-1]
        if resource in self.forbidden:
            return _refusal(resource)
        items = self._metrics_pods() if words[2:4] == ["namespaces", "resctrl-hooks"] else self._others(words, query)
        if resource == "services":
            items = [{"metadata": {"namespace": "mon", "name": "prom"}, "spec": {"ports": [{"port": 9090}]}}]
        if resource == "nodes":
            names = [*self.pages, *self.extra_nodes]
            items = [{"metadata": {"name": name}} for name in names if _fits(query, self.labels.get(name, {}))]
        start = int(query.get("continue", "0"))
        end = start + int(query["limit"])
        left = {"continue": str(end)} if end < len(items) else {}
        return 200, json.dumps({"items": items[start:end], "metadata": left})

    def _proxy(self, node: str, page: str) -> tuple[int, str]:
        if "pods/proxy" in self.forbidden:
            return _refusal("pods/proxy")
        if node in self.hang:
            self.ended.wait(30)
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            count = self.counts[node] = self.counts.get(node, -1) + 1
        try:
            if page == "diagnoses":
                return (200, self.diagnoses[node]) if node in self.diagnoses else (404, "the metrics are at /metrics")
            return 200, self.pages[node](count)
        except KeyError:
            return 503, json.dumps({"message": "no endpoints available"})
        finally:
            with self.lock:
                self.at_once -= 1

    def _metrics_pods(self) -> list[dict[str, Any]]:
        return [_pod("resctrl-hooks", f"metrics-{node}", node, {}) for node in self.pages]

    def _others(self, words: list[str], query: dict[str, str]) -> list[dict[str, Any]]:
        namespace = words[words.index("namespaces") + 1] if "namespaces" in words else ""
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        return [
            _pod(*pod)
            for pod in self.pods
            if namespace in ("", pod[0]) and name in ("", pod[1]) and _fits(query, pod[3])
        ]


def _fits(query: dict[str, str], labels: dict[str, str]) -> bool:
    wanted = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
    return wanted.items() <= labels.items()


def _pod(namespace: str, name: str, node: str, labels: dict[str, str]) -> dict[str, Any]:
    ports = [{"name": "metrics", "containerPort": 9777}]
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"image": "example.com/resctrl-hooks:1.2", "ports": ports}]},
        "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _refusal(resource: str) -> tuple[int, str]:
    return 403, json.dumps({"message": f'{resource} is forbidden: User "me" cannot list resource', "code": 403})


@contextmanager
def running(folder: Path) -> Iterator[FakeCluster]:
    """Yield an API server at a port of its own, and its kubeconfig in the folder."""
    cluster = FakeCluster()

    def answer(request: Request) -> Answer:
        parts = urlsplit(request.path)
        status, body = cluster.answer(parts.path, {name: of[0] for name, of in parse_qs(parts.query).items()})
        packed = [one for node, one in cluster.packed.items() if f"metrics-{node}:" in parts.path]
        encoding, data = packed[0] if packed else ("identity", body.encode())
        return status, data, {"Content-Encoding": encoding}

    with http_server(answer) as port:
        cluster.kubeconfig = folder / "kubeconfig"
        cluster.kubeconfig.write_text(KUBECONFIG.format(server=f"http://127.0.0.1:{port}"))
        try:
            yield cluster
        finally:
            cluster.ended.set()


def node_page(count: int, *, waiting: int = 0, ok: int = 1, moves: bool = True, reconciled: float = 0) -> str:
    """Return the metrics of a node with 16 RMIDs at its Nth scrape: 1 GB more for each one."""
    traffic = 1e9 * (count if moves else 1)
    return f"""# TYPE resctrl_scrape_ok gauge
resctrl_scrape_ok {ok}
resctrl_rmids{{owner="pods"}} 5.0
resctrl_rmids{{owner="classes"}} 2.0
resctrl_rmids{{owner="free"}} 9.0
resctrl_hooks_waiting_pods {waiting}
resctrl_hooks_last_reconcile_timestamp_seconds {reconciled or time.time()}
resctrl_hooks_build_info{{version="0.3.0"}} 1.0
resctrl_class_l3_mbm_total_bytes_total{{rdt_class="",domain_id="00",domain_name="mon_L3_00"}} {traffic}
resctrl_domain_capacity_bytes_per_second{{domain="*"}} 1e10
resctrl_domain_mbm_bytes_total{{domain="0"}} {traffic}
"""
