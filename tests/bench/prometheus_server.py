"""Real Prometheus servers for the benchmarks: metrics that it scrapes, the server itself, and its answers."""

import json
import os
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any, NamedTuple

import yaml

REPOSITORY = Path(__file__).parents[2]
RULES = REPOSITORY / "contrib/prometheus/resctrl-hooks.rules.yaml"
PATIENCE = 90.0


class Server(NamedTuple):
    """A running Prometheus."""

    url: str
    pid: int


@contextmanager
def served(text_of: Callable[[str, str], bytes], host: str = "127.0.0.1") -> Iterator[int]:
    """Serve metrics by path and ``Host``; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text_of(self.path, self.headers["Host"]))

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer((host, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def prometheus(folder: Path, name: str, config: dict[str, Any], *options: str) -> Iterator[Server]:
    """Run a Prometheus whose files in the folder begin with this name; yield it once it answers."""
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    with create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    arguments = [f"--config.file={folder}/{name}.yaml", f"--storage.tsdb.path={folder}/{name}.data", *options]
    with (
        (folder / f"{name}.log").open("w") as log,
        subprocess.Popen(["prometheus", *arguments, f"--web.listen-address=127.0.0.1:{port}"], stderr=log) as process,
    ):
        try:
            _wait_ready(f"http://127.0.0.1:{port}")
            yield Server(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()


def _wait_ready(url: str) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{url}/-/ready"):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def ask(url: str, path: str, **asked: str | float) -> Any:
    """Return the data of Prometheus' answer."""
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(asked)}", timeout=120) as answer:
        return json.load(answer)["data"]


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
