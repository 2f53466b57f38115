"""The emulator: the guest tree's own QEMU, and the plugin with which its processor reports RDT."""

import contextlib
import os
import subprocess
from collections.abc import Iterator

import cache
import debian
from cache import VmError, say

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("emulator.py", "rdt.c", "pmu.h")
PLUGIN = "rdt.so"


def program(guest: str, path: str) -> list[str]:
    """Return the command line of a program of the tree's, by the tree's own loader and libraries.

    So it needs neither a chroot nor root, and nothing of it is installed on this machine.
    """
    root = os.path.join(guest, "root")
    libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/usr/lib"
    return [f"{root}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", libraries, os.path.join(root, path)]


def qemu(guest: str) -> list[str]:
    """Return the emulator's command line so far: the tree's QEMU with the tree's firmware."""
    share = os.path.join(guest, "root/usr/share")
    return [*program(guest, "usr/bin/qemu-system-x86_64"), "-L", f"{share}/qemu", "-L", f"{share}/seabios"]


def environment(guest: str) -> dict[str, str]:
    """QEMU's environment: its own modules come out of the tree, too."""
    return {**os.environ, "QEMU_MODULE_DIR": f"{guest}/root/usr/lib/x86_64-linux-gnu/qemu"}


def _try(guest: str, library: str) -> None:
    """Load the plugin once: a QEMU without the plugin interface that it needs is found now, not at the first boot."""
    command = [*qemu(guest), "-machine", "none", "-accel", "tcg", "-display", "none", "-monitor", "stdio"]
    tried = subprocess.run(
        [*command, "-plugin", library],
        input="quit\n",
        env=environment(guest),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if tried.returncode:
        raise VmError(f"this QEMU can't load the RDT plugin: {tried.stderr.strip()}")


@contextlib.contextmanager
def plugin(guest: str) -> Iterator[str]:
    """The RDT plugin's path, compiled first if it isn't there yet."""

    def make(target: str) -> None:
        log = os.path.join(target, "build.log")
        debian.install_tools(log)
        say("compiling the RDT plugin")
        library = os.path.join(target, PLUGIN)
        debian.logged(["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "rdt.c")], log)
        _try(guest, library)

    stamp = cache.stamp_of([os.path.join(HERE, name) for name in SOURCES], os.path.basename(guest))
    with cache.part("plugin", stamp, make) as made:
        yield os.path.join(made, PLUGIN)
