"""The two disks of a boot: a tar with its job, and one with the results, which is empty at first.

The project's bytecode is compiled here with the guest's Python: in the emulator this takes ten seconds a boot. A module
contains the time of its source, which the job's archive keeps; an import sets the module's place.
"""

import contextlib
import io
import os
import re
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator

import debian
import emulator
import guest
from cache import VmError

DISK, RESULTS = "job.tar", "results.tar"
RESULTS_SIZE = 256 << 20
SKIPPED = frozenset({"__pycache__", "build", "dist", "htmlcov", "node_modules"})
"""Folders that don't travel, as those whose name begins with a dot don't."""
ENTRY = """#!/opt/venv/bin/python
import sys
from {module} import {function}
sys.exit({function}())
"""

FOLDERS = ("resctrl_hooks", "tests")  # folders of the project that the guest imports


@contextlib.contextmanager
def compiled(machine: str) -> Iterator[str]:
    """Return a folder like the project's, with the content of the `__pycache__` of each folder."""
    with tempfile.TemporaryDirectory(prefix="vm-") as top:
        python = [*emulator.program(machine, "usr/bin/python3"), "-S", "-X", f"pycache_prefix={top}/compiled"]
        sources = [os.path.join(guest.PROJECT, name) for name in FOLDERS]
        environment = {"PYTHONHOME": os.path.join(machine, "root/usr"), "PYTHONDONTWRITEBYTECODE": ""}
        debian.logged([*python, "-m", "compileall", "-q", *sources], os.path.join(top, "log"), **environment)
        yield os.path.join(top, "compiled", guest.PROJECT.lstrip(os.sep))


def _add(archive: tarfile.TarFile, name: str, content: str, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content.encode()), mode
    archive.addfile(entry, io.BytesIO(content.encode()))


def _travels(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = os.path.basename(entry.name)
    if entry.isdir() and (name.startswith(".") or name in SKIPPED):
        return None
    entry.uid = entry.gid = 0  # a contributor's checkout is the guest's root's
    entry.uname = entry.gname = "root"
    return entry


def _metadata(archive: tarfile.TarFile) -> None:
    """Make the project look like an installed one: its commands, and the metadata that importlib.metadata reads."""
    with open(os.path.join(guest.PROJECT, "pyproject.toml"), "rb") as source:
        project = tomllib.load(source)
    with open(os.path.join(guest.PROJECT, project["tool"]["hatch"]["version"]["path"]), encoding="utf-8") as source:
        found = re.search(r'^__version__ = "(.+)"$', source.read(), re.MULTILINE)
    version = found[1] if found else "0"
    name, scripts = project["project"]["name"], project["project"]["scripts"]
    folder = f"site/{name.replace('-', '_')}-{version}.dist-info"
    _add(archive, f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = "".join(f"{command} = {target}\n" for command, target in scripts.items())
    _add(archive, f"{folder}/entry_points.txt", f"[console_scripts]\n{points}")
    for command, target in scripts.items():
        module, function = target.split(":")
        _add(archive, f"bin/{command}", ENTRY.format(module=module, function=function), 0o755)


def write(work: str, script: str, compiled: str) -> None:
    """Write both disks; the job is the project's files, their bytecode, an installed project's metadata, and `run`."""
    with open(os.path.join(work, RESULTS), "wb") as disk:
        disk.truncate(RESULTS_SIZE)
    with tarfile.open(os.path.join(work, DISK), "w") as archive:
        for name in sorted(os.listdir(guest.PROJECT)):
            if not name.startswith("."):
                archive.add(os.path.join(guest.PROJECT, name), f"project/{name}", filter=_travels)
        for folder, _, names in os.walk(compiled):
            for name in names:
                place = os.path.join("project", os.path.relpath(folder, compiled), "__pycache__", name)
                archive.add(os.path.join(folder, name), place, filter=_travels)
        _metadata(archive)
        _add(archive, "run", script, 0o755)


def results(work: str) -> int:
    """Unpack the results, and return the job's exit status."""
    packed = os.path.join(work, RESULTS)
    try:
        # Of an empty disk, other modes than "r:" would read every byte, to see if it is compressed.
        with tarfile.open(packed, "r:") as archive:
            # Debian 12's Python 3.11.2 is older than the argument, and 3.14 extracts this way by default.
            if hasattr(tarfile, "data_filter"):
                archive.extractall(work, filter="data")
            else:
                archive.extractall(work)
        with open(os.path.join(work, "status"), encoding="ascii") as status:
            return int(status.read())
    except (tarfile.TarError, OSError, ValueError) as trouble:
        raise VmError("the guest ended before its job did") from trouble
    finally:
        os.remove(packed)
