"""The programs that make a release, loaded from contrib."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


def load(name: str) -> Any:
    """Load a module of contrib with its neighbours."""
    sys.path.insert(0, str(REPOSITORY / "contrib"))  # its imports are in the same folder
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / f"contrib/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load("reference")


@cache
def release() -> Any:
    """Return the module that makes a release, which has files of all houses."""
    return load("release")


def needed(name: str) -> Iterator[PathDistribution]:
    """Yield an installed distribution, and those that it needs, without extras."""
    found = distribution(name)
    assert isinstance(found, PathDistribution)
    yield found
    for requirement in found.requires or ():
        if ";" not in requirement:
            yield from needed(re.split(r"[^\w.-]", requirement)[0])
