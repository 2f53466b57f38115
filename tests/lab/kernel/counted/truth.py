"""The plugin's own ledger, containers that work in steps, and the comparison of reported values with the ledger."""

import ctypes
import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import wait_until

ROOT = os.environ.get("RESCTRL_ROOT", "/sys/fs/resctrl")
TOTAL = "mbm_total_bytes"
NEAR = 0.02  # tolerance of reported values
# push rbx; mov ebx, edi; mov ecx, esi; mov eax, 0x54525545; cpuid; shl rdx, 32; or rax, rdx; pop rbx; ret
_CODE = bytes.fromhex("53 89fb 89f1 b845555254 0fa2 48c1e220 4809d0 5b c3")
_MEMORY = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
_MEMORY.write(_CODE)
_ask = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)(
    ctypes.addressof(ctypes.c_char.from_buffer(_MEMORY))
)
"""Asks the emulator for the bytes of a domain and an RMID."""


class Truth:
    """What was moved since it was made, by domain and RMID."""

    def __init__(self, rmids: int, domains: int = 2) -> None:
        self._rmids, self._domains = range(rmids), range(domains)
        self._before = [self.ever(rmid) for rmid in self._rmids]

    def ever(self, rmid: int) -> list[int]:
        """Return the bytes of an RMID since the guest started, by domain."""
        return [_ask(domain, rmid) for domain in self._domains]

    def of(self, rmid: int) -> list[int]:
        return [now - before for now, before in zip(self.ever(rmid), self._before[rmid], strict=True)]

    def by_domain(self) -> list[int]:
        """Return the bytes of all RMIDs together, by domain."""
        return [sum(moved) for moved in zip(*map(self.of, self._rmids), strict=True)]


def rmid_of(folder: str) -> int:
    """Return the RMID of a group; the mount option `debug` shows it."""
    with open(f"{folder}/mon_hw_id", encoding="utf-8") as source:
        return int(source.read())


@contextmanager
def mounted_with(options: str) -> Iterator[None]:
    """Has resctrl mounted with these options, and as before afterwards; all groups go both times."""
    subprocess.run(["umount", ROOT], check=True)
    subprocess.run(["mount", "-t", "resctrl", "-o", options, "resctrl", ROOT], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", ROOT], check=True)
        subprocess.run(["mount", "-t", "resctrl", "resctrl", ROOT], check=True)


def copy(mebibytes: int) -> str:
    """Return a shell command that has the kernel write so much to a process's memory."""
    return f"dd if=/dev/zero of=/dev/null bs=1M count={mebibytes} 2>/dev/null"


def in_steps(*steps: str) -> str:
    """A container's command: before each step and after the last it waits to open a FIFO, which costs nothing."""
    parts = [
        f"{step}: >/dev/at{number}; read go </dev/go"
        for number, step in enumerate(["", *(f"{one}; " for one in steps)])
    ]
    return "; ".join(["mkfifo /dev/go", *parts])


class Stepped:
    """A container's process that runs `in_steps`."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")
        self._done = 0

    def _waits(self) -> bool:
        """Whether the shell sleeps without a child, having said that it is there: it is in the FIFO's open then."""
        if not os.path.exists(self._proc / f"root/dev/at{self._done}"):
            return False
        children = self._proc / f"task/{self._proc.name}/children"
        state = (self._proc / "stat").read_text().rpartition(")")[2].split()[0]
        return state == "S" and not children.read_text().strip()

    def rest(self) -> None:
        wait_until(self._waits, f"step {self._done} is done")

    def step(self) -> None:
        self.rest()
        self._done += 1
        (self._proc / "root/dev/go").write_text("go\n")
        self.rest()


def at_rest(truth: Truth, rmid: int) -> list[int]:
    """Return an RMID's traffic by domain, once none of its tasks runs."""
    seen = [truth.of(rmid)]

    def stands_still() -> bool:
        seen.append(truth.of(rmid))
        return seen[-1] == seen[-2]

    wait_until(stands_still, f"nothing runs under RMID {rmid}")
    return seen[-1]


class Comparison:
    def __init__(self, installed: Installed, truth: Truth) -> None:
        self.installed, self.truth = installed, truth

    def said(self, key: str) -> list[int]:
        readings = self.installed.context().monitor.read(key)
        return [int(one.value or 0) for one in readings if one.counter.name == TOTAL]

    def rmid(self, key: str, rdt_class: str = "") -> int:
        return rmid_of(Resctrl(ROOT).folder(rdt_class, key))

    def check(self, key: str, what: str, rdt_class: str = "", others: int = 0) -> int:
        """Compare a key's value with its RMID's true count, less ``others`` of other pods; return the truth."""
        real = sum(at_rest(self.truth, self.rmid(key, rdt_class))) - others
        self.hold(what, sum(self.said(key)), real)
        return real

    def hold(self, what: str, said: int, real: int) -> None:
        print(f"{what}: {said}, truth {real}")
        assert abs(said - real) <= NEAR * real, what
