"""The kernels that the guest boots with: its own, and those of earlier Debian releases, which people run.

For each kernel: `kernel`, `initrd.gz` and, if it isn't the guest's own, `modules.img`, a disk with its modules.
"""

import contextlib
import gzip
import lzma
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator

import aet
import cache
import debian
from cache import VmError, say

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = "default"
OLDER = {"6.1": "bookworm", "6.12": "trixie"}
"""Debian's kernel of that version, and the suite that has it."""
ENERGY = "aet"
"""The guest's own version with energy counters, built here; tests that need them (`aet=1`) run on no other."""
NAMES = (OWN, *OLDER, ENERGY)
PACKAGE = "linux-image-cloud-amd64"
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4")
"""What the initrd needs to reach the disk, built in or not: that differs by kernel."""
FURNITURE = ("guest-init", "guest-job", "guest-job.service")
"""What the initrd puts into the guest at each boot, so that a change there needs no new disk."""
SOURCES = ("kernels.py", "initrd-init", *FURNITURE)


def _needed(root: str, tree: str, version: str) -> Iterator[str]:
    """Paths of the modules for the boot, each after those that it depends on.

    Args:
        root: the guest's files; its modprobe is asked.
        tree: where `lib/modules/<version>` lies, as seen from inside `root`.
        version: the kernel's release.
    """
    seen: set[str] = set()
    for module in BOOT_MODULES:
        # chroot, because the machine need not have kmod; --set-version looks into the tree's own modules.dep.
        command = ["chroot", root, "modprobe", "-d", tree, "-S", version, "--show-depends", module]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
        if shown.returncode:
            raise VmError(f"kernel {version} has no {module}: {shown.stderr.strip()}")
        for line in shown.stdout.splitlines():
            kind, path = line.split()[:2]
            if kind == "insmod" and path not in seen:
                seen.add(path)
                yield os.path.join(root, path.lstrip("/"))


def _newc(entries: list[tuple[str, int, bytes]]) -> bytes:
    """An archive in the format that the kernel unpacks (Documentation/driver-api/early-userspace/buffer-format)."""
    out = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def pack_initrd(root: str, tree: str, version: str, target: str) -> None:
    """Write the initrd of a kernel with modules."""
    _pack_initrd(root, list(_needed(root, tree, version)), target)


def _pack_initrd(root: str, modules: list[str], target: str) -> None:
    """Write the initrd: busybox, the modules for the boot, `initrd-init`, and what makes the guest run its job."""

    def content(path: str) -> bytes:
        with open(path, "rb") as source:
            return source.read()

    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in ("bin", "guest", "lib", "proc", "sys", "dev", "root")]
    order = []
    for path in modules:
        name, data = os.path.basename(path), content(path)
        if name.endswith(".xz"):
            name, data = name.removesuffix(".xz"), lzma.decompress(data)
        order.append(name)
        entries.append((f"lib/{name}", stat.S_IFREG | 0o644, data))
    entries += [
        ("lib/order", stat.S_IFREG | 0o644, "".join(f"{name}\n" for name in order).encode()),
        ("bin/busybox", stat.S_IFREG | 0o755, content(os.path.join(root, "usr/bin/busybox"))),
        ("init", stat.S_IFREG | 0o755, content(os.path.join(HERE, "initrd-init"))),
    ]
    for name in FURNITURE:
        mode = 0o644 if name.endswith(".service") else 0o755
        entries.append((f"guest/{name}", stat.S_IFREG | mode, content(os.path.join(HERE, name))))
    with gzip.open(target, "wb", compresslevel=1) as out:
        out.write(_newc(entries))


def _make_own(root: str, target: str) -> None:
    """Take the kernel that the guest's Debian has."""
    version = os.listdir(os.path.join(root, "usr/lib/modules"))[0]
    pack_initrd(root, "/", version, os.path.join(target, "initrd.gz"))
    image = (f"{root}/boot/vmlinuz-{version}", f"{root}/usr/lib/modules/{version}/vmlinuz")
    shutil.copy(next(path for path in image if os.path.exists(path)), os.path.join(target, "kernel"))


def _make_older(name: str, root: str, target: str) -> None:
    """Fetch an older kernel and make what a boot with it needs."""
    log = os.path.join(target, "build.log")
    debian.need_builder()
    debian.install_tools(log)
    say(f"fetching Linux {name} of Debian {OLDER[name]}")
    # Below the guest's root, so that its modprobe and depmod can be asked about it from inside.
    work = os.path.join(root, "var/tmp", os.path.basename(target))
    os.makedirs(work)
    try:
        package = debian.download(PACKAGE, OLDER[name], work, log)
        unpacked = os.path.join(work, "tree")
        debian.logged(["dpkg-deb", "-x", package, unpacked], log)
        modules = next(p for p in (f"{unpacked}/usr/lib/modules", f"{unpacked}/lib/modules") if os.path.isdir(p))
        version = os.listdir(modules)[0]
        os.makedirs(os.path.join(unpacked, "lib"), exist_ok=True)
        if not os.path.exists(f"{unpacked}/lib/modules"):
            os.symlink("../usr/lib/modules", f"{unpacked}/lib/modules")
        inside = f"/{os.path.relpath(unpacked, root)}"
        debian.in_root(root, ["depmod", "-b", inside, version], log)
        pack_initrd(root, inside, version, os.path.join(target, "initrd.gz"))
        shutil.copy(f"{unpacked}/boot/vmlinuz-{version}", os.path.join(target, "kernel"))
        disk = os.path.join(target, "modules.img")
        debian.logged(["truncate", "-s", "512M", disk], log)
        debian.logged(["mke2fs", "-q", "-t", "ext4", "-d", modules, disk], log)
    finally:
        cache.remove(work)


@contextlib.contextmanager
def kernel(name: str, guest: str) -> Iterator[str]:
    """The folder with the files of kernel `name`, made (an older one: fetched) first if they aren't here yet."""
    more = [aet.stamp()] if name == ENERGY else []
    stamp = cache.stamp_of([os.path.join(HERE, file) for file in SOURCES], name, os.path.basename(guest), *more)
    root = os.path.join(guest, "root")

    def make(target: str) -> None:
        if name == OWN:
            _make_own(root, target)
        elif name == ENERGY:
            with aet.image(guest) as image:
                shutil.copy(image, os.path.join(target, "kernel"))
            _pack_initrd(root, [], os.path.join(target, "initrd.gz"))
        else:
            _make_older(name, root, target)

    with cache.part(f"kernel-{name}", stamp, make) as made:
        yield made
