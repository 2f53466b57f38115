"""Text of the demo: the possible subjects on this machine, the steps with explanations, and missing requirements."""

import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable

import click

from resctrl_hooks.core.node.host.procfs import in_initial_user_namespace
from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE, Reading

from .bundle import Bundle
from .interrupts import waiting
from .podman import OF_VERSION_1, Podman, has_only_version_2
from .process import PlainProcess
from .stage import RMIDS, Stage
from .subject import POD_UID, RuntimeFailedError, Subject
from .text import heading, line, remark

PROCESS = "process"
# In order of preference; most hosts have Podman's hooks folder.
SUBJECTS: dict[str, Callable[[Stage], Subject]] = {
    "podman": Podman,
    "runc": lambda stage: Bundle(stage, "runc"),
    "crun": lambda stage: Bundle(stage, "crun"),
    PROCESS: PlainProcess,
}
_FIELDS = re.compile(r"( [a-z_]+=\S*)+$")
_LONG_ID = re.compile(r"\b[0-9a-f]{36,64}\b")
_SECONDS_TO_COUNT = 1.0
_SECONDS_TO_FORK = 0.3
_MEGA = 1e6


class DemoError(Exception):
    """A step had an unexpected result; the text describes it."""


def available(requested: str = "") -> tuple[list[str], str]:
    """Return the possible subjects, best first or only ``requested``, and a better one's requirements as a sentence.

    Raises:
        DemoError: No subject is possible.
    """
    if not in_initial_user_namespace():
        raise DemoError(
            "this is a user namespace (a rootless container?), where the hook does nothing by design; run the "
            "demo on the host"
        )
    runtimes = [name for name in SUBJECTS if name != PROCESS and shutil.which(name)]
    if requested and requested != PROCESS and (os.geteuid() or requested not in runtimes):
        raise DemoError(f"{requested} requires root" if os.geteuid() else f"{requested} is not installed")
    if requested:
        return [requested], ""
    if os.geteuid():
        return [PROCESS], "run it as root to see the same with a real container"
    if not runtimes:
        return [PROCESS], "install podman, runc or crun to see the same with a real container"
    return [*runtimes, PROCESS], ""


def run_demo(stage: Stage, requested: str = "") -> None:
    """Show a container on a stage, and explain each line.

    Raises:
        DemoError: A step had an unexpected result.
        RuntimeFailedError: The runtime failed.
    """
    names, missing = available(requested)
    click.secho("resctrl-hooks puts each pod into its own resctrl monitoring group before it runs.", bold=True)
    click.echo(f"The demo uses only {stage.folder} and removes it at the end.")
    _resctrl(stage)
    subject, command = _created(stage, names)
    if isinstance(subject, PlainProcess) and len(names) > 1:
        missing = _remedy()
    try:
        _waiting(stage, subject, command)
        _running(stage, subject)
        _counters(stage, subject)
        _removed(stage, subject)
    except BaseException:
        _abandon(subject)
        raise
    if missing or stage.why_plain:
        click.echo()
    if missing:
        remark(f"For more: {missing}.")
    if stage.why_plain:
        remark(f"For limited RMIDs, growing counters and the demo of a noisy neighbour: {stage.why_plain}.")


def show_next() -> None:
    """Print what to do after the demo."""
    click.echo("Next: install it (README.md, section Install), and check this machine with `resctrl-hook doctor`.")


def _resctrl(stage: Stage) -> None:
    heading("1. A resctrl, without the hardware")
    if stage.why_plain:
        line("resctrl/", "a plain directory tree replaces it: no counters, no limits")
    else:
        line("resctrl/", "a simulation mounted with FUSE, with the kernel's rules")
        line(f"{RMIDS} RMIDs", "hardware monitoring IDs; each group uses one, including the root group")


def _created(stage: Stage, names: list[str]) -> tuple[Subject, str]:
    """Return the first subject that can be created, and its command; print a line for each failure."""
    for name in names:
        subject = SUBJECTS[name](stage)
        try:
            command = subject.create()
        except RuntimeFailedError as error:
            _abandon(subject)
            if name == names[-1] and name != PROCESS:
                others = [other for other in SUBJECTS if other != name and (other == PROCESS or shutil.which(other))]
                raise RuntimeFailedError(
                    f"{error}\n{name} cannot run a container here; try --with {others[0]}"
                ) from error
            if name == names[-1]:
                raise
            reason = str(error).rpartition("\n")[2]
            remark(f"\n{subject.name} cannot run a container here; continuing without it: {reason}")
            continue
        except BaseException:
            _abandon(subject)
            raise
        return subject, command
    raise AssertionError("the plain process always works")


def _remedy() -> str:
    """Return what the user can do if no runtime of this machine can run a container."""
    if not has_only_version_2() and not shutil.which(OF_VERSION_1):
        return f"install {OF_VERSION_1}, which supports this machine's cgroups, to see the same with a real container"
    return "correct the errors of the runtimes above to see the same with a real container"


def _abandon(subject: Subject) -> None:
    try:
        subject.remove()
    except RuntimeFailedError:
        return  # it was never created, or is removed


def _waiting(stage: Stage, subject: Subject, command: str) -> None:
    heading(f"2. {subject.captions.created} ({subject.name})")
    line(subject.hint, subject.captions.registered)
    line(f"$ {command}", subject.captions.waits)
    _log(stage)
    _expect(stage.groups() == [subject.key], f"expected one group, {subject.key}; found {stage.groups()}")
    named = "pod's UID" if subject.key == POD_UID else "container's id"
    line(f"mon_groups/{_short(subject.key)}", f"the hook created this monitoring group; its name is the {named}")
    _show_tasks(stage, subject, "waits for its start, already in its group")


def _running(stage: Stage, subject: Subject) -> None:
    heading("3. It is started")
    line(f"$ {subject.start()}", subject.captions.runs)
    with waiting():
        time.sleep(_SECONDS_TO_FORK)
    if not stage.why_plain:  # a folder does not see forks
        _show_tasks(stage, subject, "its child processes are in the group as well")


def _log(stage: Stage) -> None:
    """Return the hook's log messages without journald's fields."""
    for logged in stage.new_log():
        sentence = _FIELDS.sub("", logged).replace(f"{stage.folder}/", "")
        line(f"log: {_LONG_ID.sub(lambda found: _short(found[0]), sentence)}", "")


def _show_tasks(stage: Stage, subject: Subject, why: str) -> None:
    tasks = stage.tasks(subject.key)
    _expect(bool(tasks), f"{_short(subject.key)} has no tasks")
    named = Counter(tasks.values())
    text = ", ".join(name if count == 1 else f"{name} ({count} threads)" for name, count in named.items())
    line(f"  tasks: {text}", why)


def _counters(stage: Stage, subject: Subject) -> None:
    if stage.why_plain:
        return
    heading("4. Its counters, after a second")
    before = _sums(stage, subject)
    with waiting():
        time.sleep(_SECONDS_TO_COUNT)
    after = _sums(stage, subject)
    _expect(_MEANING.keys() <= after.keys(), f"the group has only the counters {sorted(after)}")
    for name, why in _MEANING.items():
        value, reading = after[name]
        growth = f" +{(value - before[name][0]) / _MEGA:.0f}" if reading.kind == CUMULATIVE else ""
        line(f"  {name:<16}{value / _MEGA:6.0f} MB{growth}", why)
    line("", "simulated values; on a node with RDT, the hardware counts")


_MEANING = {
    "llc_occupancy": "L3 cache that it occupies now",
    "mbm_total_bytes": "memory traffic since its start",
    "mbm_local_bytes": "the part to the local NUMA node",
}


def _sums(stage: Stage, subject: Subject) -> dict[str, tuple[float, Reading]]:
    """Return each counter over all domains."""
    sums: dict[str, tuple[float, Reading]] = {}
    for reading in stage.monitor.read(subject.key):
        so_far = sums[reading.counter.name][0] if reading.counter.name in sums else 0
        sums[reading.counter.name] = (so_far + (reading.value or 0), reading)
    return sums


def _removed(stage: Stage, subject: Subject) -> None:
    heading(f"{4 if stage.why_plain else 5}. It is removed")
    line(f"$ {subject.remove()}", subject.captions.removed)
    _log(stage)
    _expect(not stage.groups(), f"groups are left: {stage.groups()}")
    _expect(not stage.records(), f"records are left: {stage.records()}")
    line("mon_groups is empty", "the group is removed; its RMID is free for the next pod")
    line("no records", "no record remains")


def _short(key: str) -> str:
    return f"{key[:12]}…"


def _expect(truth: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as assert does
    if not truth:
        raise DemoError(otherwise)
