"""Builds the guest: a Debian with the container runtimes, and with the emulator that will run it.

One Debian tree serves both: the guest's disk is made from it, and QEMU is run out of it (see emulator.py), because the
plugin needs a newer QEMU than the machine's Debian may have.
"""

import contextlib
import glob
import os
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator

import cache
import cri
import debian
from cache import say

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
SUITE = "forky"
"""The oldest Debian whose QEMU lets plugins write registers and the program counter (plugin API 7, QEMU 11.1)."""
SCRIPT = "/usr/share/debootstrap/scripts/sid"
"""debootstrap's script for any recent suite: an older debootstrap does not know the suite by name."""
PACKAGES = (
    # a host like those that run containers
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "procps", "util-linux-extra", "uidmap", "fuse3"),
    *("podman", "crun", "runc", "containerd", "conmon", "netavark", "catatonit"),
    # for the tests
    *("busybox-static", "python3", "python3-venv", "strace", "jq"),
    # to boot
    *("qemu-system-x86", "linux-image-cloud-amd64"),
)
EXTRA = "tests"
"""The project's extra with all that the tests need."""
VENV = "/opt/venv"
MASKED = (
    *("serial-getty@ttyS0.service", "getty@tty1.service", "podman-auto-update.timer", "systemd-binfmt.service"),
    *("systemd-udev-trigger.service", "e2scrub_reap.service"),  # nothing here needs them, and each takes many seconds
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
)
"""Units that have no business in the guest: a login prompt on the console, for one."""
DISABLED = ("containerd.service",)
"""Services that a test may start, but no boot waits for."""
USER = ("user", "1000")
"""An ordinary user of the guest, with the sub-ids that rootless containers need."""
DISK = "4G"
PLATFORMS = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def requirements(*more: str) -> list[str]:
    """What the project's tests depend on, extras expanded, and what `more` of its extras need."""
    with open(os.path.join(PROJECT, "pyproject.toml"), "rb") as source:
        project = tomllib.load(source)["project"]
    found: list[str] = list(project["dependencies"])
    extras = [EXTRA, *more]
    for extra in extras:  # grows on the way
        for line in project["optional-dependencies"][extra]:
            if own := re.fullmatch(rf"{re.escape(project['name'])}\[(.*)\]", line):
                extras += own[1].split(",")
            else:
                found.append(line)
    return sorted(found)


def stamp() -> str:
    """Change when the guest would."""
    return cache.stamp_of([os.path.join(HERE, name) for name in ("guest.py", "cri.py")], requirements(cri.EXTRA))


def _install_debian(root: str, log: str) -> None:
    mirror = debian.mirror(log)
    say(f"installing Debian {SUITE} (two minutes, 2 GB)")
    bootstrap = ["debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, root, mirror, SCRIPT]
    debian.logged(debian.isolated(bootstrap), log)
    settings = os.path.join(root, "etc/apt/apt.conf.d/99machine")
    with open(settings, "w", encoding="utf-8") as out:
        out.write(debian.apt_settings())
    for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):
        if os.path.exists(path):
            shutil.copy(path, root + path)
    debian.in_root(root, ["apt-get", "-q", "update"], log)
    debian.in_root(root, ["apt-get", "-q", "install", "-y", "--no-install-recommends", *PACKAGES], log)
    cri.download(root, log)
    debian.in_root(root, ["apt-get", "-q", "clean"], log)
    os.remove(settings)
    cache.remove(os.path.join(root, "var/lib/apt/lists"))


def _install_python(root: str, log: str) -> None:
    """A virtual environment with what the tests need. This machine's pip fetches it, as it is configured."""
    say("installing the Python packages of the tests")
    debian.in_root(root, ["python3", "-m", "venv", VENV], log)
    site = glob.glob(f"{root}{VENV}/lib/python3.*/site-packages")[0]
    version = os.path.basename(os.path.dirname(site)).removeprefix("python")
    wheels = os.path.join(root, "var/tmp/wheels")
    target = [f"--python-version={version}", "--implementation=cp", *(f"--platform={name}" for name in PLATFORMS)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--only-binary=:all:"]
    debian.logged([*pip, *target, f"--dest={wheels}", *requirements(cri.EXTRA)], log)
    install = [f"{VENV}/bin/pip", "install", "-q", "--no-index", "--find-links=/var/tmp/wheels"]
    debian.in_root(root, [*install, *requirements(cri.EXTRA)], log, {"PIP_CONFIG_FILE": "/dev/null"})
    cache.remove(wheels)
    cri.generate(root, f"{VENV}/bin/python", log)
    # The project itself comes with each job: its folder, and one with the metadata of an installed distribution.
    with open(os.path.join(site, "job.pth"), "w", encoding="utf-8") as out:
        out.write("/job/project\n/job/site\n")


def _furnish(root: str, log: str) -> None:
    """What makes the tree a quiet host with an ordinary user."""
    for unit in MASKED:
        link = os.path.join(root, "etc/systemd/system", unit)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink("/dev/null", link)
    with open(os.path.join(root, "etc/hostname"), "w", encoding="utf-8") as out:
        out.write("guest\n")
    debian.in_root(root, ["systemctl", "disable", *DISABLED], log)
    for folder in ("etc", "var"):  # the stamps of ConditionNeedsUpdate=: no boot is a first boot (ldconfig, catalogs)
        with open(os.path.join(root, folder, ".updated"), "w", encoding="utf-8"):
            pass
    name, number = USER
    debian.in_root(root, ["useradd", "--create-home", f"--uid={number}", "--shell=/bin/bash", name], log)


def _make(target: str) -> None:
    debian.need_builder()
    log = os.path.join(cache.folder(), "build.log")
    with open(log, "w", encoding="utf-8") as out:
        out.write(f"guest {stamp()} on {platform.platform()}\n")
    say(f"building the guest; log: {log}")
    debian.install_tools(log)
    root = os.path.join(target, "root")
    _install_debian(root, log)
    _install_python(root, log)
    _furnish(root, log)
    say("making the disk")
    disk = os.path.join(target, "disk.img")
    debian.logged(["truncate", "-s", DISK, disk], log)
    debian.logged(["mke2fs", "-q", "-t", "ext4", "-d", root, disk], log)
    say("the guest is built")


@contextlib.contextmanager
def guest() -> Iterator[str]:
    """The guest's folder (`root` and `disk.img`), built first if it isn't here yet."""
    with cache.part("guest", stamp(), _make) as made:
        yield made
