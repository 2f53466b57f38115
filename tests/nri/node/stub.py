"""A plugin that records its requests, run as a process: `python stub.py SOCKET OUT`.

The pod's name selects the result of an event: `crash`, `hang`, `refuse`, `answer`, or success; after `unfit` the
process serves no other event; `wait` lasts until OUT.go exists.
"""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.node.host.notify import Notify
from resctrl_hooks.nri.node import ttrpc, workers
from resctrl_hooks.nri.node.protobuf import decode, encode
from resctrl_hooks.nri.node.resident import Resident
from resctrl_hooks.nri.node.worker import pack
from resctrl_hooks.nri.node.workers import Workers

if TYPE_CHECKING:
    from resctrl_hooks.nri.node.worker import Reply

HANDLED = ("CreateContainer", "StartContainer", "StopContainer", "RemovePodSandbox")


class Stub:
    """A service's plugin."""

    name, index = "stub", "90"

    def __init__(self, out: str) -> None:
        self._out = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._go = Path(f"{out}.go")

    def tell(self, *words: object) -> None:
        """Write one line atomically."""
        os.write(self._out, (" ".join(map(str, words)) + "\n").encode())

    def configure(self, request: dict[str, Any]) -> None:
        self.tell("configure", request.get("runtime_name"), request.get("config"))

    def serves(self, event: str, payload: bytes) -> bool:
        return event.partition(":")[0] in HANDLED

    def limit(self, timeout: float) -> float:
        return timeout * 0.8

    def subscription(self) -> int:
        return 0x7FF

    def generation(self) -> int:
        return 1

    def serve(self, event: str, payload: bytes, reply: "Reply") -> bool:
        code, answer = self.answer(event, payload)
        reply(code, pack(answer, b""))
        if b"unfit" in payload:
            time.sleep(0.2)  # the next event comes before it has ended
        return b"unfit" not in payload

    def answer(self, event: str, payload: bytes) -> tuple[int, bytes]:
        """Return the result of an event: its code and its answer."""
        name = "StateChangeEvent" if event.endswith(":StateChange") else "ContainerEvent"
        pod = decode(name, payload).get("pod", {}).get("name", "")
        self.tell("serve", event, pod)
        if pod == "policy":
            self.tell("policy", os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)
        if pod == "crash":
            os.abort()
        if pod == "hang":
            time.sleep(600)
        while pod == "wait" and not self._go.exists():
            time.sleep(0.01)
        if pod == "refuse":
            return ttrpc.UNKNOWN, b"not this one"
        if pod == "leave" and not os.fork():  # a process that outlives the event, and keeps its inherited descriptors
            time.sleep(2)
            os._exit(0)
        if event == "CreateContainer":
            adjust = {"env": [{"key": "A", "value": "x" * 20_000 if pod == "large" else "b"}]}
            return 0, encode("CreateContainerResponse", {"adjust": adjust})
        return 0, b""

    def synchronize(self, parts: list[bytes], reply: "Reply") -> None:
        count = sum(len(decode("SynchronizeRequest", part).get("containers", [])) for part in parts)
        self.tell("synchronize", count)
        reply(0, pack(b"", b""))

    def adopt(self, reply: "Reply") -> None:
        self.tell("adopt")
        reply(0, pack(b"", b""))

    def served(self, event: str, payload: bytes, seconds: float, code: int | None) -> None:
        self.tell("served", event.partition(":")[0], code)

    def refusal(self, event: str, payload: bytes) -> str:
        return "nobody could say" if event == "CreateContainer" and payload else ""

    def updated(self, why: str) -> None:
        self.tell("updated", why)

    def connected(self) -> None:
        self.tell("connected")

    def dropped(self, why: str) -> None:
        self.tell("dropped", why)


def main() -> None:
    """Serve as the real one does."""
    path, out = sys.argv[1:]
    workers.PATIENCE = 60  # no test depends on this machine's speed
    stub: Any = Stub(out)
    resident = Resident(path, stub, Notify())
    resident.run(Workers(resident.close, stub.serve))


if __name__ == "__main__":
    main()
