"""What a hook costs a container's start: whole processes, interleaved, in one run. Used by `nox -s bench`.

python tests/lab/bench/run.py [--count 60] [--instructions]
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

# A process starts with the peak memory of its predecessor before exec. Forked from a bare interpreter, that is less
# than any interpreter's own; this process's own, with all its imports, would hide the result.
_PEAK = """
import posix, sys
stdin = posix.open(sys.argv[1], posix.O_RDONLY)
posix.dup2(stdin, 0)
child = posix.fork()
if not child:
    posix.execve(sys.argv[2], sys.argv[2:], {"PATH": "/usr/bin:/bin"})
_, status, usage = posix.wait4(child, 0)
print(status, usage.ru_maxrss)
"""
_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


class FailedError(Exception):
    """A process that did not end as it should; its time would be no measurement."""


class Call(NamedTuple):
    """A command, and the file that it reads."""

    command: list[str]
    stdin: Path

    def seconds(self) -> tuple[float, float]:
        """Run it and return its duration, and its processor time including children."""
        stderr = self.stdin.with_suffix(".stderr")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, str(self.stdin), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(stderr), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        begin = time.perf_counter()
        child = os.posix_spawn(self.command[0], self.command, _ENVIRONMENT, file_actions=actions)
        _, status, usage = os.wait4(child, 0)
        took = time.perf_counter() - begin
        self._check(status, stderr.read_text())
        return took, usage.ru_utime + usage.ru_stime

    def peak(self, python: str) -> int:
        words = [python, "-I", "-S", "-c", _PEAK, str(self.stdin), *self.command]
        told = subprocess.run(words, capture_output=True, text=True, check=True)
        status, kilobytes = told.stdout.split()
        self._check(int(status), told.stderr)
        return int(kilobytes)

    def instructions(self) -> int:
        """Run it in valgrind and return how many instructions it executes outside the kernel, children included."""
        log = self.stdin.with_suffix(".valgrind")
        for old in log.parent.glob(f"{log.name}.*"):
            old.unlink()
        options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes", f"--log-file={log}.%p"]
        words = ["valgrind", *options, *self.command]
        with self.stdin.open("rb") as stdin:
            done = subprocess.run(words, stdin=stdin, capture_output=True, text=True, env=_ENVIRONMENT, check=False)
        self._check(done.returncode, done.stderr)
        lines = (line for file in log.parent.glob(f"{log.name}.*") for line in file.read_text().splitlines())
        return sum(int(line.rpartition(":")[2]) for line in lines if "Collected :" in line)

    def _check(self, status: int, stderr: str) -> None:
        if status or stderr:
            raise FailedError(f"status {status} of {' '.join(self.command)}: {stderr}")


FIXTURES = Path(__file__).parents[2] / "fixtures"
BENCH = Path(__file__).parent
_STATE = "crio-crun-createRuntime-state.json"
_BUNDLE = "crio-crun-config.json"


class Host:
    """The installed hook below a folder on tmpfs, its settings, a plain tree as resctrl, and a socket as journald."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.installed = root / "installed"
        self.installed.mkdir()
        install = [sys.executable, "-m", "resctrl_hooks", "install", "--runtime", "crio", "--root"]
        subprocess.run([*install, str(self.installed)], check=True, capture_output=True)
        (registration,) = self.installed.glob("**/hooks.d/*.json")
        self._arguments: list[str] = json.loads(registration.read_text())["hook"]["args"]
        self.resctrl = root / "resctrl"
        for name in ("info", "mon_groups", "mon_data"):
            (self.resctrl / name).mkdir(parents=True)
        (root / "bundle").mkdir()
        shutil.copy(FIXTURES / _BUNDLE, root / "bundle/config.json")
        self.journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.journal.bind(str(root / "journal"))
        self.journal.settimeout(0)
        self.configure()

    def configure(self, **sections: Any) -> None:
        """Apply settings: defaults with this host's paths, and ``sections``."""
        values: dict[str, Any] = {
            "format": 1,
            "resctrlPath": str(self.resctrl),
            "stateDir": str(self.root / "state"),
            "log": {"target": "journal", "journalSocket": str(self.root / "journal")},
            **sections,
        }
        (self.installed / "etc/resctrl-hooks/config.json").write_text(json.dumps(values))

    def hook(self) -> list[str]:
        """Return the command line of the registration, its files found below this host's root."""
        moved = ("/usr/local/", "/etc/")
        return [f"{self.installed}{word}" if word.startswith(moved) else word for word in self._arguments]

    @contextlib.contextmanager
    def container(self, but: str = "") -> Iterator[dict[str, Path]]:
        """A process that waits to be started, and the states that a runtime hands to createRuntime and poststop.

        Annotations whose names have ``but`` in them are left out.
        """
        with subprocess.Popen(["sleep", "600"]) as process:
            state: dict[str, Any] = json.loads((FIXTURES / _STATE).read_text())
            notes = {name: text for name, text in state["annotations"].items() if not but or but not in name}
            state |= {"bundle": str(self.root / "bundle"), "pid": process.pid, "annotations": notes}
            paths = {status: self.root / f"{status}.json" for status in ("creating", "stopped")}
            paths["creating"].write_text(json.dumps(state))
            paths["stopped"].write_text(json.dumps(state | {"status": "stopped", "pid": 0}))
            yield paths
            process.kill()
        self.read_journal()

    def end(self, states: dict[str, Path]) -> None:
        """End the process of `container`: a poststop finds it gone."""
        pid = json.loads(states["creating"].read_text())["pid"]
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    def read_journal(self) -> int:
        """Take the log's lines, so that the next hook finds room for its own; return how many there were."""
        lines = 0
        with contextlib.suppress(BlockingIOError):
            while self.journal.recv(1 << 16):
                lines += 1
        return lines


BARE = "bare interpreter"
CREATE = "createRuntime"
STOP = "poststop"
UNCONCERNED = "createRuntime with every feature on, none of them for this workload"
RULED = "createRuntime with rules for RMIDs, one of them free"
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
RULES: list[dict[str, Any]] = [
    {"namespaces": ["other"], "value": 100},
    {"qos": "Guaranteed", "value": 50},
    {"namespaces": ["team-*"], "value": -10},
]
Figure = TypeVar("Figure")


class Bench:
    """All subjects on one host; a round calls each of them once."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.command = host.hook()
        self.python = next(word for word in self.command if "python" in word)
        self.shell = ["/bin/sh", str(BENCH / "hook-jq.sh"), str(host.resctrl)]

    def round(self, measure: Callable[[Call], Figure]) -> Iterator[tuple[str, Figure]]:
        """Call every subject once."""
        host = self.host
        with host.container() as states:  # the bare interpreter is the lower bound for every hook in Python
            yield BARE, measure(Call([self.python, "-I", "-S", "-c", "pass"], states["creating"]))
        yield from self._container(CREATE, STOP, measure)
        with host.container() as states:
            yield SMALLEST_SHELL, measure(Call(self.shell, states["creating"]))
        for group in (host.resctrl / "mon_groups").iterdir():
            shutil.rmtree(group)  # the shell hook keeps no record of it
        host.configure(**EVERY_FEATURE)
        yield from self._container(UNCONCERNED, "", measure, but="memtierd")
        host.configure(monitoring={"priority": RULES})
        yield from self._container(RULED, "", measure)
        host.configure()

    def _container(
        self, create: str, stop: str, measure: Callable[[Call], Figure], but: str = ""
    ) -> Iterator[tuple[str, Figure]]:
        """Yield a container's whole life: its createRuntime makes the pod's group, its poststop removes it."""
        with self.host.container(but) as states:
            yield create, measure(Call(self.command, states["creating"]))
            self._expect(1, create)
            self.host.end(states)
            took = measure(Call(self.command, states["stopped"]))
            if stop:
                yield stop, took
            self._expect(0, stop)

    def _expect(self, groups: int, name: str) -> None:
        """A hook that did nothing, or did not log it, would be fast."""
        found = len(os.listdir(self.host.resctrl / "mon_groups"))
        lines = self.host.read_journal()
        if found != groups or not lines:
            raise SystemExit(f"{name}: {found} groups and {lines} lines in the log, instead of {groups} and some")


def measured(bench: Bench, count: int, *, instructions: bool) -> dict[str, dict[str, float]]:
    """Run all rounds; return each subject's figures: milliseconds, and the others against the bare interpreter."""
    for _ in bench.round(Call.seconds):  # everything is in the page cache from here on
        pass
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(count):
        for name, took in bench.round(Call.seconds):
            times.setdefault(name, []).append(took)
    peaks: dict[str, int] = {}
    for _ in range(3):
        for name, peak in bench.round(lambda call: call.peak(bench.python)):
            peaks[name] = min(peak, peaks.get(name, peak))
    executed = dict(bench.round(Call.instructions)) if instructions else {}
    medians = {name: [statistics.median(kind) for kind in zip(*both, strict=True)] for name, both in times.items()}
    return {
        name: {
            "ms": took * 1e3,
            "against bare": took / medians[BARE][0],
            "processor time": used / medians[BARE][1],
            **({"instructions": executed[name] / executed[BARE]} if executed else {}),
            "MiB above bare": (peaks[name] - peaks[BARE]) / 1024,
        }
        for name, (took, used) in medians.items()
    }


def goals(rows: dict[str, dict[str, float]]) -> str:
    """Return the goals, each with its figure and whether it is met."""
    create, shell = rows[CREATE], rows[SMALLEST_SHELL]
    bare, above = create["against bare"], create["MiB above bare"]
    faster, more = shell["against bare"] / bare, rows[UNCONCERNED]["processor time"] / create["processor time"]
    found = [
        ("createRuntime at most 1.45 times a bare interpreter", bare, bare <= 1.45),
        ("twice as fast as the smallest shell hook", faster, faster >= 2),
        ("features for other workloads cost at most a twentieth of processor time", more, more <= 1.05),
        ("at most 2 MiB more memory than a bare interpreter", above, above <= 2),
    ]
    for subject in (CREATE, STOP) if "instructions" in create else ():
        executed = rows[subject]["instructions"]
        found.append((f"{subject}: at most 1.30 of a bare interpreter's instructions", executed, executed <= 1.30))
    return "\n".join(f"- {text}: {value:.2f} ({'met' if is_met else 'NOT MET'})" for text, value, is_met in found)


def main() -> None:
    """Measure, and print the table and the goals."""
    options = argparse.ArgumentParser(prog="nox -s bench --", description="What a hook costs a container's start.")
    options.add_argument("--count", type=int, default=60, help="rounds; at least 40 make a figure (default: 60)")
    options.add_argument("--instructions", action="store_true", help="count instructions too, in valgrind: no noise")
    chosen = options.parse_args()
    missing = [name for name in ("jq", *(["valgrind"] if chosen.instructions else [])) if not shutil.which(name)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="resctrl-hooks-bench-", dir=Path("/dev/shm")) as folder:
        rows = measured(Bench(Host(Path(folder))), chosen.count, instructions=chosen.instructions)
    heads = list(rows[BARE])
    lines = [f"|  | {' | '.join(heads)} |", f"|---|{'--:|' * len(heads)}"]
    lines += [f"| {name} | {' | '.join(f'{value:.2f}' for value in row.values())} |" for name, row in rows.items()]
    machine = f"Linux {platform.release()}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}"
    print("\n".join([*lines, "", f"Medians of {chosen.count} rounds; {machine}.", "", goals(rows)]))


if __name__ == "__main__":
    main()
