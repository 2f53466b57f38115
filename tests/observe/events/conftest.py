"""An API server for Events only, with the validation of Kubernetes that matters here."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from resctrl_hooks.observe.events.api import Api

NEEDED = ("eventTime", "reportingController", "reportingInstance", "action", "reason", "type", "regarding", "note")


@dataclass
class FakeApi:
    """Stored Events by path, and the requests that were made."""

    api: Api
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    """Methods that this account may not use."""
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, value: dict[str, Any], kind: str) -> tuple[int, Any]:
        self.asked.append((method, path))
        if method in self.forbidden:
            return 403, {"message": "events.k8s.io is forbidden"}
        if method == "POST":
            missing = [name for name in NEEDED if not value.get(name)]
            place = f"{path}/{value['metadata']['name']}"
            if missing or value["metadata"]["namespace"] != path.split("/")[-2]:
                return 422, {"message": f"invalid: {missing}"}
            if place in self.stored:
                return 409, {"message": "exists"}
            self.stored[place] = value
            return 201, value
        if path not in self.stored:
            return 404, {"message": "not found"}
        if kind != "application/merge-patch+json" or not {*value} <= {"series"}:
            return 422, {"message": "only the series may change"}
        if value and value["series"]["count"] < 2:
            return 422, {"message": "a series has at least 2 Events"}
        self.stored[path].update(value)
        return 200, self.stored[path]

    def counts(self) -> dict[str, int]:
        """Return by pod and reason how often an Event was reported."""
        return {
            f"{one['regarding']['name']} {one['reason']}": one.get("series", {"count": 1})["count"]
            for one in self.stored.values()
        }


@pytest.fixture
def api(tmp_path: Path) -> Iterator[FakeApi]:
    """Return the server, which runs at a port of its own."""
    (tmp_path / "token").write_text("first\n")

    class Handler(BaseHTTPRequestHandler):
        def serve(self) -> None:
            fake.tokens.add(self.headers["Authorization"].removeprefix("Bearer "))
            value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = fake.answer(self.command, self.path, value, self.headers["Content-Type"])
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.serve()

        def do_PATCH(self) -> None:
            self.serve()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = FakeApi(Api("127.0.0.1", server.server_address[1], str(tmp_path), encrypted=False))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
