"""The plugin's own ledger, containers that work in steps, and the comparison of reported values with the ledger."""

import ctypes
import mmap
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import wait_until

ROOT = os.environ.get("RESCTRL_ROOT", "/sys/fs/resctrl")
# push rbx; mov ebx, edi; mov ecx, esi; mov eax, 0x54525545; cpuid; shl rdx, 32; or rax, rdx; pop rbx; ret
_CODE = bytes.fromhex("53 89fb 89f1 b845555254 0fa2 48c1e220 4809d0 5b c3")


_MEMORY = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
"""Where the code lies, for as long as anybody may call it."""


def _ask() -> Callable[[int, int], int]:
    _MEMORY.seek(0)
    _MEMORY.write(_CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(_MEMORY))
    return ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)(address)


class Truth:
    """What was moved since it was made."""

    def __init__(self, rmids: int, domains: int = 2) -> None:
        self._ask = _ask()
        self._places = [(domain, rmid) for domain in range(domains) for rmid in range(rmids)]
        self.domains = domains
        self._before = self._all()

    def _all(self) -> dict[tuple[int, int], int]:
        return {place: self._ask(*place) for place in self._places}

    def of(self, rmid: int) -> list[int]:
        return [self._ask(domain, rmid) - self._before[domain, rmid] for domain in range(self.domains)]

    def ever(self, rmid: int) -> list[int]:
        """Return the bytes of an RMID since the guest started, by domain."""
        return [self._ask(domain, rmid) for domain in range(self.domains)]

    def by_domain(self) -> list[int]:
        """Return the bytes of all RMIDs together, by domain."""
        now = self._all()
        domains = range(self.domains)
        return [sum(now[at] - self._before[at] for at in self._places if at[0] == domain) for domain in domains]

    def whole(self) -> int:
        return sum(now - self._before[place] for place, now in self._all().items())


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
    stops = [f": >/dev/at{number}; read go </dev/go" for number in range(len(steps) + 1)]
    return "; ".join(
        ["mkfifo /dev/go", stops[0], *(f"{step}; {stop}" for step, stop in zip(steps, stops[1:], strict=True))]
    )


class Stepped:
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


TOTAL = "mbm_total_bytes"
NEAR = 0.02  # tolerance of reported values


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
