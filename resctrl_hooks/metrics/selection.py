"""What is asked for of all that there is: on large clusters each pod's series are many."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Selection(NamedTuple):
    """Counters and namespaces by glob, such as ``mbm_*`` and ``team-*``; an empty list is all of them."""

    counters: Sequence[str] = ()
    namespaces: Sequence[str] = ()

    def has_counter(self, name: str) -> bool:
        """Return whether a counter, by its file's name in ``mon_data``, is asked for."""
        return _fits(name, self.counters)

    def useless_counters(self, names: Iterable[str]) -> list[str]:
        """Return the globs that fit none of the counters' ``names``."""
        names = list(names)
        return [glob for glob in self.counters if not any(fnmatchcase(name, glob) for name in names)]

    def has_namespace(self, name: str) -> bool:
        """Return whether the pods of a namespace are asked for; containers of Podman have an empty one."""
        return _fits(name, self.namespaces)


EVERYTHING = Selection()


def _fits(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs)
