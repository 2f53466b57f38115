"""A /proc for a simulated node: its `stat` has the node's CPUs, and all else is this machine's, by symbolic links."""

import contextlib
import os
import re
import shutil

_TICKS = os.sysconf("SC_CLK_TCK")
_UNFINISHED = "~"  # ends the name of a folder that `link_in_cgroup` is making


class Processors:
    """A folder in place of /proc, whose CPUs are busy with the work of the node's pods.

    Args:
        folder: the folder; created if missing.
        number: the node's CPUs.
    """

    def __init__(self, folder: str, number: int) -> None:
        self._folder = folder
        self._number = number
        self._since: float | None = None
        self._busy = self._idle = 0.0
        os.makedirs(folder, exist_ok=True)

    def run(self, now: float, used: float) -> None:
        """Count until now CPUs of which ``used`` were busy, evenly, and link new processes."""
        elapsed = now - self._since if self._since is not None else 0.0
        self._since = now
        self._busy += elapsed * used
        self._idle += elapsed * max(0.0, self._number - used)
        parts = [("cpu ", 1), *((f"cpu{number}", self._number) for number in range(self._number))]
        lines = [
            f"{name} {int(self._busy / part * _TICKS)} 0 0 {int(self._idle / part * _TICKS)} 0 0 0 0 0 0\n"
            for name, part in parts
        ]
        with open(f"{self._folder}/stat~", "w", encoding="utf-8") as file:
            file.writelines(lines)
        os.replace(f"{self._folder}/stat~", f"{self._folder}/stat")
        self._link()

    def _link(self) -> None:
        """Link all entries of /proc, and remove the links to processes that have ended."""
        here, there = set(os.listdir(self._folder)), set(os.listdir("/proc"))
        for name in there - here:
            link(self._folder, name)
        for name in here - there - {"stat"}:
            if name.endswith(_UNFINISHED):
                continue
            path = f"{self._folder}/{name}"
            with contextlib.suppress(FileNotFoundError):
                if os.path.islink(path):
                    os.unlink(path)
                else:
                    shutil.rmtree(path)


def link_in_cgroup(folder: str, pid: int, cgroup: str, cpus: int) -> None:
    """Show a process as one of a cgroup and of so many CPUs in a folder that replaces /proc; all else is linked."""
    path, new = f"{folder}/{pid}", f"{folder}/{pid}{_UNFINISHED}"
    os.mkdir(new)
    for name in os.listdir(f"/proc/{pid}"):
        os.symlink(f"/proc/{pid}/{name}", f"{new}/{name}")
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = re.sub(r"(Cpus_allowed_list:\t).*", rf"\g<1>0-{cpus - 1}", file.read())
    for name, text in {"cgroup": f"0::/{cgroup}\n", "status": status}.items():
        os.unlink(f"{new}/{name}")
        with open(f"{new}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    while True:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # by `Processors`, which may do it again
        with contextlib.suppress(NotADirectoryError):
            os.rename(new, path)
            return


def link(folder: str, name: str) -> None:
    """Link an entry of /proc into a folder that replaces it."""
    with contextlib.suppress(FileExistsError):
        os.symlink(f"/proc/{name}", f"{folder}/{name}")
