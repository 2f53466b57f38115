"""Selection of metrics, because large clusters have many series per pod."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Selection(NamedTuple):
    """Counters and namespaces by glob, such as ``mbm_*`` and ``team-*``; an empty list selects all."""

    counters: Sequence[str] = ()
    namespaces: Sequence[str] = ()

    def has_counter(self, name: str) -> bool:
        """Return whether a counter, by its file's name in ``mon_data``, is selected."""
        return _fits(name, self.counters)

    def useless_counters(self, names: Iterable[str]) -> list[str]:
        """Return the globs that match none of the counters' ``names``."""
        names = list(names)
        return [glob for glob in self.counters if not any(fnmatchcase(name, glob) for name in names)]

    def has_namespace(self, name: str) -> bool:
        """Return whether a namespace's pods are selected; Podman containers have an empty namespace."""
        return _fits(name, self.namespaces)


EVERYTHING = Selection()


def _fits(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs)
