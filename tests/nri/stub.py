"""A plugin that writes down what it is asked, run as a process: `python stub.py SOCKET OUT`.

The pod's name says how an event ends: `crash`, `hang`, `refuse`, `answer`, or well.
"""

import os
import sys
import time
from typing import Any

from resctrl_hooks.node.host.notify import Notify
from resctrl_hooks.nri import ttrpc
from resctrl_hooks.nri.connection import Connection
from resctrl_hooks.nri.protobuf import decode, encode
from resctrl_hooks.nri.resident import Resident
from resctrl_hooks.nri.service import Service
from resctrl_hooks.nri.workers import Workers

HANDLED = ("CreateContainer", "StartContainer", "StopContainer", "RemovePodSandbox")


def update(container: str) -> bytes:
    """An UpdateContainers."""
    one = {"container_id": container, "linux": {"resources": {"cpu": {"cpus": "2"}}}}
    return encode("UpdateContainersRequest", {"update": [one]})


class Stub:
    """A service's plugin."""

    name, index = "stub", "90"

    def __init__(self, out: str) -> None:
        self._out = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(self, *words: object) -> None:
        """One line, whole, whoever writes it."""
        os.write(self._out, (" ".join(map(str, words)) + "\n").encode())

    def configure(self, request: dict[str, Any]) -> None:
        self.tell("configure", request.get("runtime_name"), request.get("config"))

    def serves(self, event: str, payload: bytes) -> bool:
        return event.partition(":")[0] in HANDLED

    def limit(self, timeout: float) -> float:
        return timeout * 0.8

    def serve(self, event: str, payload: bytes) -> tuple[int, bytes, bytes]:
        name = "StateChangeEvent" if event.endswith(":StateChange") else "ContainerEvent"
        pod = decode(name, payload).get("pod", {}).get("name", "")
        self.tell("serve", event, pod)
        if pod == "crash":
            os.abort()
        if pod == "hang":
            time.sleep(600)
        if pod == "refuse":
            return ttrpc.UNKNOWN, b"not this one", b""
        if pod == "leave" and not os.fork():  # something that outlives the event, and keeps what it inherited
            time.sleep(2)
            os._exit(0)
        if event == "CreateContainer":
            adjust = {"env": [{"key": "A", "value": "x" * 20_000 if pod == "large" else "b"}]}
            return 0, encode("CreateContainerResponse", {"adjust": adjust}), b""
        return 0, b"", update("c2") if pod == "moves" else b""

    def synchronize(self, parts: list[bytes]) -> tuple[int, bytes, bytes]:
        count = sum(len(decode("SynchronizeRequest", part).get("containers", [])) for part in parts)
        self.tell("synchronize", count)
        return 0, b"", update("c1") if count == 1 else b""

    def served(self, event: str, payload: bytes, seconds: float, code: int | None) -> None:
        self.tell("served", event, code)

    def refusal(self, event: str, payload: bytes) -> str:
        return "nobody could say" if event == "CreateContainer" and payload else ""

    def updated(self, why: str) -> None:
        self.tell("updated", why)

    def connected(self) -> None:
        self.tell("connected")

    def dropped(self, why: str) -> None:
        self.tell("dropped", why)


def main() -> None:
    """Serves as the real one does, or with a third argument so many connections, one after the other without pauses."""
    path, out, *count = sys.argv[1:]
    stub, notify = Stub(out), Notify()
    resident = Resident(path, stub, notify)
    if not count:
        resident.run(Workers(resident.close))
        return
    workers = Workers(lambda: None)
    for _ in range(int(count[0])):
        connection = Connection(path)
        try:
            Service(connection, stub, workers, notify).run(lambda: False)
        except Exception as error:  # noqa: BLE001  # whatever it is, the test asks what
            stub.tell("ended", type(error).__name__, error)
        connection.close()


if __name__ == "__main__":
    main()
