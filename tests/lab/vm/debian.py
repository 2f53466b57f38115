"""This machine's Debian, with its own apt settings: its tools, and commands inside a tree during its installation."""

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from cache import VmError, say

TOOLS = {  # a command that the build runs, and the package that it comes in
    "debootstrap": "debootstrap",
    "mke2fs": "e2fsprogs",
    "cc": "gcc",
    "unshare": "util-linux",
}
ALSO = ("libc6-dev",)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
APT_SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Retries", "Acquire::Check-", "Acquire::ForceIP")
"""What of the machine's apt configuration matters to an apt elsewhere: the way to the mirror."""
LOG_TAIL = 15


def need_builder() -> None:
    """Raise an error with the reason if this machine cannot build the guest."""
    if platform.machine() != "x86_64":
        raise VmError(f"the guest needs an amd64 machine, this is {platform.machine()}")
    if not os.path.exists("/etc/debian_version"):
        raise VmError("the guest is built with debootstrap and apt: this needs Debian")
    if os.geteuid() != 0:
        raise VmError("building the guest needs root")


def logged(command: Sequence[str], log: str, *, cwd: str | None = None, **environment: str) -> None:
    """Run a command, in folder `cwd` if given, and append its output to `log`."""
    with open(log, "ab") as out:
        out.write(f"\n+ {shlex.join(command)}\n".encode())
        out.flush()
        start = out.tell()
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **environment},
            check=False,
        )
    if done.returncode:
        with open(log, "rb") as text:
            text.seek(start)
            tail = text.read().decode(errors="replace").splitlines()[-LOG_TAIL:]
        raise VmError("\n  ".join([f"{shlex.join(command)[:120]} failed ({done.returncode}):", *tail]))


def install_tools(log: str) -> None:
    """Install the build's own tools if they are missing."""
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if not os.path.exists("/usr/include/stdio.h"):
        missing += ALSO
    if missing:
        say(f"installing {' '.join(missing)}")
        logged(["apt-get", "-q", "update"], log)
        install = ["apt-get", "-q", "install", "-y", "--no-install-recommends", *missing]
        logged(install, log, DEBIAN_FRONTEND="noninteractive")


def mirror(log: str) -> str:
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]

    def known() -> list[str]:
        listed = subprocess.run(listing, capture_output=True, text=True, check=False).stdout.split()
        return [uri for uri in listed if "security" not in uri]

    uris = known()
    if not uris:  # a machine or container whose package lists were never fetched, or thrown away
        logged(["apt-get", "-q", "update"], log)
        uris = known()
    if not uris:
        raise VmError("this machine's apt has no Debian mirror")
    return uris[0]


def apt_settings() -> str:
    """Return this machine's apt settings for access to the mirror, as an apt.conf for a tree."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    return "".join(f"{line}\n" for line in dump.splitlines() if line.startswith(APT_SETTINGS))


def download(package: str, suite: str, target: str, log: str) -> str:
    """Download the first dependency of `package` (a metapackage) from another Debian suite; return the .deb's path.

    This machine's apt does it with separate lists and a separate cache in `target`; the machine's own stay unchanged.
    """
    sources = os.path.join(target, "sources.list")
    with open(sources, "w", encoding="utf-8") as out:
        out.write(f"deb [arch=amd64 signed-by={KEYRING}] {mirror(log)} {suite} main\n")
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(target, name))
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": os.path.join(target, "lists"),
        "Dir::Cache": os.path.join(target, "cache"),
        "APT::Sandbox::User": "root",
    }
    own = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    logged(["apt-get", *own, "-q", "update"], log)
    depends = subprocess.run(["apt-cache", *own, "depends", package], capture_output=True, text=True, check=False)
    names = [line.split()[1] for line in depends.stdout.splitlines() if line.strip().startswith("Depends:")]
    if not names:
        raise VmError(f"Debian {suite} has no {package} on this machine's mirror")
    logged(["apt-get", *own, "-q", "download", names[0]], log, cwd=target)
    return next(os.path.join(target, name) for name in os.listdir(target) if name.endswith(".deb"))


def isolated(command: Sequence[str], proc: str = "/proc") -> list[str]:
    """Return the command in its own mount and process namespaces: its mounts and daemons end with it."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={proc}", *command]


def in_root(root: str, command: Sequence[str], log: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command with `root` as its root folder."""
    settings = {"DEBIAN_FRONTEND": "noninteractive", "INITRD": "No", "LC_ALL": "C.UTF-8", **(environment or {})}
    words = [f"{name}={value}" for name, value in settings.items()]
    chroot = ["chroot", root, "/usr/bin/env", *words, *command]
    logged(isolated(chroot, os.path.join(root, "proc")), log)
