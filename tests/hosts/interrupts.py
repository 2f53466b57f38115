"""A simulated host with files of interrupts, and an irqbalance that answers on its socket."""

import shutil
import socket
import struct
import tempfile
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hosts.node import Node
from hosts.placed import CPUS, PlacedHost
from resctrl_hooks.core.node.host.cpulist import format_mask, parse_list

DISABLE = {"irq-load-balancing.crio.io": "disable"}
EXCLUSIVE = {CPUS: "exclusive", **DISABLE}
DEFAULT = "ffffffff"
FOUND = {"1": "0-31", "16": "4", "24": "0,8", "25": "0-3", "40": "12-15"}
HANDLERS = {"1": "i8042", "16": "ahci", "24": "nvme0q1", "25": "nvme0q2"}
"""Interrupt 40 has no handler."""


class InterruptHost(PlacedHost):
    """A host whose containers get CPUs without interrupts. The first one of two CPUs gets 0 and 16."""

    def __init__(self, host: Node) -> None:
        # A socket's path has at most 107 bytes (unix(7)), and pytest's folders have the tests' names.
        short = tempfile.mkdtemp(prefix="irq-")
        weakref.finalize(self, shutil.rmtree, short, ignore_errors=True)
        self.balancers = Path(short, "irqbalance")
        super().__init__(host)
        self.folder_of_irqs = host.proc / "irq"
        for number in FOUND:
            self.plug(number)
        (self.folder_of_irqs / "default_smp_affinity").write_text(f"{DEFAULT}\n")

    def place(self, *, monitoring: bool = False, **section: Any) -> None:
        super().place(monitoring=monitoring, **({"irqbalancePath": str(self.balancers)} | section))

    def plug(self, number: str, cpus: str = "", handler: str = "") -> None:
        name = handler or HANDLERS.get(number, "")
        (self.folder_of_irqs / number / name).mkdir(parents=True)
        self.path(number).write_text(f"{cpus or FOUND[number]}\n")

    def path(self, number: str) -> Path:
        return self.folder_of_irqs / number / "smp_affinity_list"

    def changed(self) -> dict[str, str]:
        """Return the affinities that differ from the first ones, by number."""
        now = {number: self.path(number).read_text().strip() for number in FOUND}
        now["default"] = (self.folder_of_irqs / "default_smp_affinity").read_text().strip()
        return {number: cpus for number, cpus in now.items() if cpus != {**FOUND, "default": DEFAULT}[number]}

    @property
    def record(self) -> Path:
        return self.host.state / "placement.irqs"


class Balancer:
    """irqbalance's socket: commands with the credentials of root, as irqbalance.c checks them.

    With ``lazy`` the answer to ``setup`` stays until `rescan`, as the daemon's does.
    """

    def __init__(self, folder: Path, banned: str = "", *, lazy: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "irqbalance4711.sock"
        self.own = parse_list(banned)
        self.told = self.banned = self.own
        self.commands: list[str] = []
        self._lazy = lazy
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(self.path))
        self._socket.listen(1)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        self.path.unlink()

    def rescan(self) -> None:
        self.banned = self.told

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                data, ancillary, _, _ = client.recvmsg(16384, socket.CMSG_SPACE(12))
                (_, kind, credentials) = ancillary[0]
                assert kind == 2
                assert struct.unpack("iii", credentials)[1] == 0
                command = data.decode().rstrip("\0")
                if command == "setup":
                    client.send(f"SLEEP 10 IRQ 9 LOAD 0 DIFF 0 CLASS 0 BANNED {format_mask(self.banned)}".encode())
                    continue
                self.commands.append(command)
                cpus = command.removeprefix("settings cpus ")
                self.told = self.own if cpus == "NULL" else parse_list(cpus)
                if not self._lazy:
                    self.rescan()
