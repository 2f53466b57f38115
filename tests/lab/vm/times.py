"""Where the time of tests goes, as Markdown: by phase and by file. And what `shares.py` needs to know of it.

python3 tests/lab/vm/times.py REPORT…          a run's folder of `./dev kernel` (it prints the path), or a JUnit
                                               file of the unit tests (`nox -s tests -- --junitxml=FILE`)
python3 tests/lab/vm/times.py --write REPORT…  also writes seconds.json, from the folders
"""

import argparse
import dataclasses
import glob
import json
import os
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator

import shares

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(shares.HERE)))
SHOWN = 12
"""Files in a table; what takes less stands in one line."""


@dataclasses.dataclass
class Session:
    """One pytest session: its boot's name (or `unit`), its seconds since the start of the boot, and its tests by file.

    `idle` is the idle share of the guest's processor time, in per cent.
    """

    name: str
    wall: float
    inside: float
    tests: list[tuple[str, float]]
    idle: str = ""

    @property
    def running(self) -> float:
        """The tests with their fixtures; the sum exceeds the wall time if they ran in parallel."""
        return sum(took for _, took in self.tests)


def file_of(classname: str) -> str:
    """Return the file of a test, from JUnit's dotted name of its module, and maybe of its class."""
    words = classname.split(".")
    while words and not os.path.exists(os.path.join(PROJECT, f"{'/'.join(words)}.py")):
        words.pop()
    return f"{'/'.join(words)}.py" if words else classname


def read(report: str, name: str, wall: float | None = None) -> Session:
    """Read one JUnit file."""
    (suite,) = ET.parse(report).getroot().iter("testsuite")
    inside = float(suite.get("time", 0))
    tests = [(file_of(case.get("classname", "")), float(case.get("time", 0))) for case in suite.iter("testcase")]
    return Session(name, inside if wall is None else wall, inside, tests)


def idle(stat: str) -> str:
    """Return the percentage from a copy of a guest's /proc/stat (man 5 proc: user, nice, system, idle, iowait, …)."""
    if not os.path.exists(stat):
        return ""
    with open(stat, encoding="ascii") as source:
        ticks = [int(word) for word in source.readline().split()[1:]]
    return f"{100 * ticks[3] / sum(ticks):.0f} %"


def sessions(paths: Iterable[str]) -> Iterator[Session]:
    """Yield the sessions of all these reports, without second boots."""
    for path in paths:
        if os.path.isfile(path):
            yield read(path, "unit")
            continue
        for report in sorted(glob.glob(os.path.join(glob.escape(path), "*", "junit.xml"))):
            folder = os.path.dirname(report)
            if not folder.endswith("-again"):
                with open(os.path.join(folder, "seconds"), encoding="ascii") as wall:
                    found = read(report, os.path.basename(folder), float(wall.read()))
                yield dataclasses.replace(found, idle=idle(os.path.join(folder, "stat")))


def by_phase(found: list[Session]) -> list[str]:
    """Return a table of the time before pytest runs, in pytest outside tests, and in tests."""
    lines = ["| | tests | s | boot, start and end | collection | tests | idle |", "|---|---|---|---|---|---|---|"]
    for one in found:
        between = max(0.0, one.inside - one.running)
        cells = (len(one.tests), *(f"{value:.0f}" for value in (one.wall, one.wall - one.inside, between, one.running)))
        lines.append(f"| {' | '.join(map(str, (one.name, *cells, one.idle)))} |")
    return lines


def by_file(found: list[Session]) -> list[str]:
    """Return a table of the files that take longest."""
    taken: dict[tuple[str, str], list[float]] = {}
    for one in found:
        kind = "unit" if one.name == "unit" else init_of(one)
        for name, took in one.tests:
            taken.setdefault((name, kind), []).append(took)
    rows = sorted(taken.items(), key=lambda row: -sum(row[1]))
    lines = ["| file | where | tests | s |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {len(took)} | {sum(took):.0f} |" for (name, kind), took in rows[:SHOWN]]
    rest = [took for _, took in rows[SHOWN:]]
    return [*lines, f"| {len(rest)} more | | {sum(map(len, rest))} | {sum(map(sum, rest)):.0f} |"]


def init_of(one: Session) -> str:
    """Return the guest's init in a session."""
    return "systemd" if "init=systemd" in one.name else "shell"


def averages(found: list[Session]) -> dict[str, dict[str, float]]:
    """Return the content of seconds.json: the average time of a test of each file, by init."""
    taken: dict[str, dict[str, list[float]]] = {}
    for one in found:
        for name, took in one.tests if one.name != "unit" else ():
            taken.setdefault(name, {}).setdefault(init_of(one), []).append(took)
    return {
        name: {init: round(sum(took) / len(took), 1) for init, took in sorted(by_init.items())}
        for name, by_init in sorted(taken.items())
    }


def merged(known: dict[str, dict[str, float]], new: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the times of seconds.json with new ones in their place: a run of one init leaves those of the other."""
    return known | {name: known.get(name, {}) | by_init for name, by_init in new.items()}


def main(words: list[str]) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("reports", nargs="+", metavar="REPORT")
    options = parser.parse_args(words)
    found = list(sessions(options.reports))
    print("\n".join([*by_phase(found), "", *by_file(found)]))
    if options.write:
        path = os.path.join(shares.HERE, "seconds.json")
        with open(path, encoding="utf-8") as source:
            known = json.load(source)
        with open(path, "w", encoding="utf-8") as out:
            json.dump(merged(known, averages(found)), out, indent=1, sort_keys=True)
            out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
