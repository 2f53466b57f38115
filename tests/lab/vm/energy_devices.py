"""The devices that count energy for the emulated processor: one program for each package, to which QEMU connects."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from cache import VmError

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "oobmsm.py")
LEDGER_SIZE = 512 << 10
_SECONDS = 20


@dataclasses.dataclass(frozen=True)
class Devices:
    """The emulator's options for the devices."""

    plugin_option: str = ""
    options: tuple[str, ...] = ()


@contextlib.contextmanager
def served(packages: int, perf_rmids: int) -> Iterator[Devices]:
    """Yield the devices; they run as long as the context lasts.

    Args:
        packages: their number; 0 for a processor without energy counters.
        perf_rmids: the number of RMIDs for which the devices report performance events.

    Raises:
        VmError: a device does not start.
    """
    if not packages:
        yield Devices()
        return
    with tempfile.TemporaryDirectory(prefix="aet-") as folder, contextlib.ExitStack() as stack:
        ledger = os.path.join(folder, "ledger")
        with open(ledger, "wb") as out:
            out.truncate(LEDGER_SIZE)
        options: list[str] = []
        for package in range(packages):
            socket = os.path.join(folder, f"package{package}")  # a socket's path is short, so it is not in the cache
            words = [f"ledger={ledger}", f"package={package}", f"perf_rmids={perf_rmids}"]
            process = stack.enter_context(
                subprocess.Popen([sys.executable, PROGRAM, socket, *words], stdout=subprocess.DEVNULL)
            )
            stack.callback(process.kill)
            end = time.monotonic() + _SECONDS
            while not os.path.exists(socket):
                if process.poll() is not None or time.monotonic() > end:
                    raise VmError("the device that counts energy does not start")
                time.sleep(0.02)
            device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": socket}}
            options += ["-device", json.dumps(device)]
        yield Devices(f",share={ledger}", tuple(options))
