"""The plugin's own ledger: how many bytes each RMID has moved in each L3 domain, asked for with an instruction."""

import ctypes
import mmap
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    """What was moved since it was made.

    Args:
        rmids: how many RMIDs the processor has.
        domains: how many L3 domains.
    """

    def __init__(self, rmids: int, domains: int = 2) -> None:
        self._ask = _ask()
        self._places = [(domain, rmid) for domain in range(domains) for rmid in range(rmids)]
        self.domains = domains
        self._before = self._all()

    def _all(self) -> dict[tuple[int, int], int]:
        return {place: self._ask(*place) for place in self._places}

    def of(self, rmid: int) -> list[int]:
        """Return the bytes of an RMID, by domain."""
        return [self._ask(domain, rmid) - self._before[domain, rmid] for domain in range(self.domains)]

    def ever(self, rmid: int) -> list[int]:
        """Return the bytes of an RMID since the guest started, by domain."""
        return [self._ask(domain, rmid) for domain in range(self.domains)]

    def by_domain(self) -> list[int]:
        """The bytes of all RMIDs together, by domain."""
        now = self._all()
        return [
            sum(now[place] - self._before[place] for place in self._places if place[0] == domain)
            for domain in range(self.domains)
        ]

    def whole(self) -> int:
        """Return the bytes of all RMIDs together."""
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
