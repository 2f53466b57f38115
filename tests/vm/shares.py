"""Shares tests out to boots: what needs the same boot, by whole files, so that no boot takes much longer than others.

A file stays together, because its tests share fixtures. `seconds.json` has how long a test of a file takes on average,
by the init that it needs; `times.py` writes it.
"""

import dataclasses
import functools
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
EACH = 3
"""How many boots each job has, about: few, as a boot costs up to a minute, and enough to end at the same time."""
UNKNOWN = 4.0
"""Seconds for a test of a file that was never measured."""


@dataclasses.dataclass
class Share:
    """Tests for one boot.

    `needs` is what they say about it, `files` how many there are of each file.
    """

    needs: dict[str, object]
    files: dict[str, int]

    @property
    def tests(self) -> int:
        """How many there are."""
        return sum(self.files.values())

    @property
    def seconds(self) -> float:
        """How long they may take."""
        return sum(seconds(name, self.needs) * count for name, count in self.files.items())


@functools.cache
def _measured() -> dict[str, dict[str, float]]:
    with open(os.path.join(HERE, "seconds.json"), encoding="utf-8") as source:
        found: dict[str, dict[str, float]] = json.load(source)
    return found


def seconds(name: str, needs: dict[str, object]) -> float:
    """Return how long one test of this file takes on average in such a boot."""
    return _measured().get(name, {}).get(str(needs.get("init", "shell")), UNKNOWN)


def split(share: Share, longest: float) -> list[Share]:
    """As many shares as keep each one's time near `longest`: the longest file first, to the share that has least."""
    number = min(max(1, round(share.seconds / longest)), len(share.files))
    parts = [Share(share.needs, {}) for _ in range(number)]
    for name in sorted(share.files, key=lambda name: -seconds(name, share.needs) * share.files[name]):
        min(parts, key=lambda part: part.seconds).files[name] = share.files[name]
    return parts


def shared_out(needed: list[Share], jobs: int) -> list[Share]:
    """Return the boots, the longest first: the last ones then end together. One job gets no more than there must be."""
    if jobs == 1:
        return needed
    longest = sum(share.seconds for share in needed) / (jobs * EACH)
    return sorted((part for share in needed for part in split(share, longest)), key=lambda part: -part.seconds)
