"""What a hook costs a container's start: whole processes, interleaved, in one run. Used by `nox -s bench`.

python tests/lab/bench/run.py [--count 60] [--instructions] [--write docs/dev/performance.md]
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parent))

from host import BENCH, TMPFS, Host, bare
from process import Call
from report import Row, table, write

from resctrl_hooks.core.fuse import MountError
from resctrl_hooks.lab.simulation.mount import mounted

BARE = "bare interpreter"
CREATE = "createRuntime, as the hook's JSON calls it"
STOP = "poststop, as the hook's JSON calls it"
UNCONCERNED = "createRuntime with every feature on, none of them for this workload"
RULED = "createRuntime with rules for RMIDs, one of them free"
SIMULATION = "a simulation in FUSE"
ASSIGNED = f"{SIMULATION} of AMD, counters assigned by the kernel"
MACHINES: dict[str, dict[str, Any]] = {
    SIMULATION: {},
    f"{SIMULATION} with energy counters": {"energy": True},
    f"{SIMULATION} of AMD": {"vendor": "amd"},
    ASSIGNED: {"vendor": "amd", "assignable_counters": 32},
}
"""Simulated machines, by name."""
SMALLEST_SHELL = "sh and one jq"
OTHERS: dict[str, Any] = {"enabled": True, "allow": {"other": ["*"]}}
# Every feature is on, for other workloads than the one that starts.
EVERY_FEATURE: dict[str, Any] = {
    "classes": [{"name": "batch", "allowswap": True, "memtierdconfig": "policy: {}"}],
    "rdt": OTHERS,
    "placement": {**OTHERS, "namespaces": ["other"]},
    "blockio": {**OTHERS, "classes": {"slow": [{"weight": 50}]}},
    "scheduling": {**OTHERS, "classes": {"batch": {"cpuWeight": 20}}},
}
RULES: dict[str, Any] = {
    "priority": [
        {"namespaces": ["other"], "value": 100},
        {"qos": "Guaranteed", "value": 50},
        {"namespaces": ["team-*"], "value": -10},
    ]
}
NOTHING = 1.005
"""A ratio within the noise: hashes have another order in each process."""
Figure = TypeVar("Figure")


class Bench:
    """All subjects on one host; a round calls each of them once."""

    def __init__(self, host: Host, simulations: dict[str, Path]) -> None:
        self.host = host
        self.simulations = simulations
        self.python = host.hook_without_guard()[0]
        self.ours = [
            (CREATE, STOP, host.hook()),
            ("createRuntime without the guard", "poststop without the guard", host.hook_without_guard()),
            ("createRuntime from plain modules, bytecode cached", "", host.modules("cached", cached=True)),
            ("createRuntime from plain modules, nothing cached", "", host.modules("plain", cached=False)),
        ]
        resctrl = str(host.resctrl)
        self.others = [
            (SMALLEST_SHELL, ["/bin/sh", str(BENCH / "hook-jq.sh"), resctrl]),
            ("sh and five jq", ["/bin/sh", str(BENCH / "hook-jq-each.sh"), resctrl]),
        ]

    def round(self, measure: Callable[[Call], Figure]) -> Iterator[tuple[str, Figure]]:
        """Call every subject once."""
        host = self.host
        with host.container() as states:
            yield BARE, measure(bare(self.python, states["creating"]))
        for create, stop, command in self.ours:
            yield from self._container(create, stop, command, measure)
        for name, command in self.others:
            with host.container() as states:
                yield name, measure(Call(command, states["creating"]))
            host.clear()
        host.configure(host.resctrl, **EVERY_FEATURE)
        yield from self._container(UNCONCERNED, "", host.hook(), measure, but="memtierd")
        host.configure(host.resctrl, monitoring=RULES)
        yield from self._container(RULED, "", host.hook(), measure)
        for name, root in self.simulations.items():
            host.configure(root)
            yield from self._container(f"createRuntime on {name}", f"poststop on {name}", host.hook(), measure)
        host.configure(host.resctrl)

    def _container(
        self, create: str, stop: str, command: list[str], measure: Callable[[Call], Figure], but: str = ""
    ) -> Iterator[tuple[str, Figure]]:
        """Yield a container's whole life: its createRuntime makes the pod's group, its poststop removes it."""
        with self.host.container(but) as states:
            yield create, measure(Call(command, states["creating"]))
            self._expect(1, create)
            self.host.end(states)
            took = measure(Call(command, states["stopped"]))
            if stop:
                yield stop, took
            self._expect(0, stop)

    def _expect(self, groups: int, name: str) -> None:
        """A hook that did nothing, or did not log it, would be fast."""
        found = sum(len(os.listdir(f"{root}/mon_groups")) for root in (self.host.resctrl, *self.simulations.values()))
        lines = self.host.read_journal()
        if found != groups or not lines:
            raise SystemExit(f"{name}: {found} groups and {lines} lines in the log, instead of {groups} and some")


def measured(bench: Bench, count: int, *, instructions: bool) -> list[Row]:
    """Run all rounds and make a row for each subject."""
    for _ in bench.round(Call.seconds):  # everything is in the page cache from here on
        pass
    times: dict[str, list[tuple[float, float]]] = {}
    for number in range(count):
        show(f"round {number + 1} of {count}")
        for name, took in bench.round(Call.seconds):
            times.setdefault(name, []).append(took)
    show("memory")
    peaks: dict[str, int] = {}
    for _ in range(3):
        for name, peak in bench.round(lambda call: call.peak(bench.python)):
            peaks[name] = min(peak, peaks.get(name, peak))
    executed: dict[str, int] = {}
    if instructions:
        show("instructions, in valgrind")
        executed = dict(bench.round(Call.instructions))
    show("")
    medians = {name: [statistics.median(kind) for kind in zip(*both, strict=True)] for name, both in times.items()}
    floor, floor_used = medians[BARE]
    return [
        Row(
            name,
            took * 1e3,
            took / floor,
            used / floor_used,
            executed[name] / executed[BARE] if executed else None,
            (peaks[name] - peaks[BARE]) / 1024,
        )
        for name, (took, used) in medians.items()
    ]


def show(text: str) -> None:
    """Print progress to a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def machine(count: int) -> str:
    """Describe the machine, and its load."""
    version = subprocess.run(
        ["/usr/bin/python3", "-c", "import platform; print(platform.python_version())"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    load = os.getloadavg()[0]
    return (
        f"Medians of {count} rounds; Python {version}, Linux {platform.release().partition('-')[0]}, "
        f"{os.cpu_count()} CPUs, load average {load:.1f}."
    )


@contextmanager
def simulations(folder: Path) -> Iterator[dict[str, Path]]:
    """Simulations by name, one of each of `MACHINES`; none where FUSE can't be used."""
    found = {}
    with ExitStack() as stack:
        try:
            for number, (name, machine) in enumerate(MACHINES.items()):
                path = folder / f"simulation{number}"
                found[name] = Path(stack.enter_context(mounted(path, rmids=64, limbo=0.0, **machine)))
        except MountError as error:
            print(f"no figures of the simulation: {error}", file=sys.stderr)  # a command's own voice
        yield found


def main() -> None:
    """Measures, prints the table, and writes it where asked."""
    options = argparse.ArgumentParser(prog="nox -s bench --", description="What a hook costs a container's start.")
    options.add_argument("--count", type=int, default=60, help="rounds; at least 40 make a figure (default: 60)")
    options.add_argument("--instructions", action="store_true", help="count instructions too, in valgrind: no noise")
    options.add_argument("--write", type=Path, metavar="FILE", help="put the table into this page")
    chosen = options.parse_args()
    missing = [name for name in ("jq", *(["valgrind"] if chosen.instructions else [])) if not shutil.which(name)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="resctrl-hooks-bench-", dir=TMPFS) as folder:
        root = Path(folder)
        with simulations(root) as simulated:
            rows = measured(Bench(Host(root), simulated), chosen.count, instructions=chosen.instructions)
    text = table(rows, machine(chosen.count))
    print(text)  # its purpose
    print(f"\nload average before: {before:.1f}; goals: {goals(rows)}")
    if chosen.write:  # the simulations of other processors differ little
        write(chosen.write, table([row for row in rows if f"{SIMULATION} " not in row.name], machine(chosen.count)))


def goals(rows: list[Row]) -> str:
    """Which goals are met."""
    by_name = {row.name: row for row in rows}
    create, shell, unconcerned = by_name[CREATE], by_name[SMALLEST_SHELL], by_name[UNCONCERNED]
    met = [
        (f"createRuntime at most 1.45 times a bare interpreter: {create.ratio:.2f}", create.ratio <= 1.45),
        (
            f"twice as fast as the smallest shell hook: {shell.ratio / create.ratio:.2f}",
            shell.ratio / create.ratio >= 2,
        ),
        (
            f"features for other workloads cost at most a twentieth of CPU time: {unconcerned.used / create.used:.2f}",
            unconcerned.used / create.used <= 1.05,
        ),
        (f"at most 2 MB more memory than a bare interpreter: {create.memory:.1f}", create.memory <= 2),
    ]
    for row, most in ((create, 1.30), (by_name[STOP], 1.30)):
        if row.instructions:
            text = f"{row.name.partition(',')[0]}: at most {most:.2f} of a bare interpreter's instructions"
            met.append((f"{text}: {row.instructions:.2f}", row.instructions <= most))
    intel, amd = (by_name.get(f"createRuntime on {name}") for name in (SIMULATION, ASSIGNED))
    if intel and amd and intel.instructions and amd.instructions:
        more = amd.instructions / intel.instructions
        met.append((f"no more instructions on AMD than on Intel: {more:.3f}", more <= NOTHING))
    return "; ".join(f"{text} ({'met' if is_met else 'NOT MET'})" for text, is_met in met)


if __name__ == "__main__":
    main()
