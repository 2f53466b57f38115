"""The project's bytecode, compiled here with the guest's Python: in the emulator this takes ten seconds a boot.

A compiled module contains the time of its source, which the job's archive keeps, and no path that matters: an import
sets the module's place.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator

import debian
import emulator
import guest

FOLDERS = ("resctrl_hooks", "tests")
"""Folders of the project that the guest imports."""


@contextlib.contextmanager
def compiled(machine: str) -> Iterator[str]:
    """Return a folder like the project's, with the content of the `__pycache__` of each folder.

    Args:
        machine: the guest's folder, whose Python compiles.

    Raises:
        VmError: a module cannot be compiled.
    """
    with tempfile.TemporaryDirectory(prefix="vm-") as top:
        python = [*emulator.program(machine, "usr/bin/python3"), "-S", "-X", f"pycache_prefix={top}/compiled"]
        sources = [os.path.join(guest.PROJECT, name) for name in FOLDERS]
        environment = {"PYTHONHOME": os.path.join(machine, "root/usr"), "PYTHONDONTWRITEBYTECODE": ""}
        debian.logged([*python, "-m", "compileall", "-q", *sources], os.path.join(top, "log"), **environment)
        yield os.path.join(top, "compiled", guest.PROJECT.lstrip(os.sep))
