"""Assigns tests to boots by whole files: tests in a boot have equal needs, and no boot takes much longer than others.

A file is not split, because its tests share fixtures. `seconds.json` has the average time of a file's tests, by
init: `python3 tests/lab/vm/shares.py RUN…` writes it from the folders of runs (`./dev kernel` prints their paths).
"""

import dataclasses
import functools
import glob
import json
import os
import sys
import xml.etree.ElementTree as ET

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
EACH = 3
"""How many boots each job has, about: few, as a boot costs up to a minute, and enough to end at the same time."""
UNKNOWN = 60.0
"""Seconds for a test of a file that was never measured: so many that its boot begins early. A long one at the end runs
alone.
"""


@dataclasses.dataclass
class Share:
    """Tests for one boot.

    `needs` are their boot requirements, `files` the number of tests by file.
    """

    needs: dict[str, object]
    files: dict[str, int]

    @property
    def tests(self) -> int:
        return sum(self.files.values())

    @property
    def seconds(self) -> float:
        return sum(seconds(name, self.needs) * count for name, count in self.files.items())


@functools.cache
def _measured() -> dict[str, dict[str, float]]:
    with open(os.path.join(HERE, "seconds.json"), encoding="utf-8") as source:
        found: dict[str, dict[str, float]] = json.load(source)
    return found


def seconds(name: str, needs: dict[str, object]) -> float:
    return _measured().get(name, {}).get(str(needs.get("init", "shell")), UNKNOWN)


def split(share: Share, longest: float) -> list[Share]:
    """Return as many shares as keep each one's time near `longest`: the longest file first, to the shortest share."""
    number = min(max(1, round(share.seconds / longest)), len(share.files))
    parts = [Share(share.needs, {}) for _ in range(number)]
    for name in sorted(share.files, key=lambda name: -seconds(name, share.needs) * share.files[name]):
        min(parts, key=lambda part: part.seconds).files[name] = share.files[name]
    return parts


def shared_out(needed: list[Share], jobs: int) -> list[Share]:
    """Return the boots, the longest first, so that the last ones end together; one job gets the minimum number."""
    if jobs == 1:
        return needed
    longest = sum(share.seconds for share in needed) / (jobs * EACH) or 1  # the times of new files are unknown
    return sorted((part for share in needed for part in split(share, longest)), key=lambda part: -part.seconds)


def averages(runs: list[str]) -> dict[str, dict[str, float]]:
    """Return the known average times, with those of the runs in their place, of files that exist."""
    taken: dict[str, dict[str, list[float]]] = {}
    for report in sorted(path for run in runs for path in glob.glob(os.path.join(glob.escape(run), "*", "junit.xml"))):
        init = "systemd" if "init=systemd" in report else "shell"
        for case in ET.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}.py"
            taken.setdefault(name, {}).setdefault(init, []).append(float(case.get("time", 0)))
    found = {name: dict(by_init) for name, by_init in _measured().items()}
    for name, by_init in taken.items():
        found.setdefault(name, {}).update({init: round(sum(took) / len(took), 1) for init, took in by_init.items()})
    return {name: found[name] for name in sorted(found) if os.path.exists(os.path.join(PROJECT, name))}


if __name__ == "__main__":
    text = json.dumps(averages(sys.argv[1:]), indent=1, sort_keys=True)
    with open(os.path.join(HERE, "seconds.json"), "w", encoding="utf-8") as out:
        out.write(f"{text}\n")
