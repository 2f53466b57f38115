"""What is asked for of all that there is: on large clusters each pod's series are many."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Selection(NamedTuple):
    """Counters and namespaces by glob, such as ``mbm_*`` and ``team-*``; an empty list is all of them."""

    counters: Sequence[str] = ()
    namespaces: Sequence[str] = ()

    def has_counter(self, name: str) -> bool:
        """Whether a counter, by its file's name in ``mon_data``, is asked for."""
        return _fits(name, self.counters)

    def has_namespace(self, name: str) -> bool:
        """Whether the pods of a namespace are asked for; containers of Podman have an empty one."""
        return _fits(name, self.namespaces)


EVERYTHING = Selection()


def _fits(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs)
