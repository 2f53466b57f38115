"""Comparison of this machine's classes with the declared ones for `rdt show`, and their creation for `rdt apply`.

The kernel checks each write for itself, so the order matters: first classes lose mode exclusive, then masks change,
then classes get mode exclusive.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import ResctrlError
from resctrl_hooks.core.node.host.files import kernel_text
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.core.node.resctrl.kernel_refusals import last_cmd_status
from resctrl_hooks.core.node.resctrl.rmids import foreign_classes
from resctrl_hooks.core.node.resctrl.schemata import LOCK, write_schemata

from .before import read_before, write_before
from .capabilities import Schemata, present_classes, read_abilities, read_schemata
from .config import EXCLUSIVE, ROOT_NAME, differences, lines
from .held import Held, held_values
from .plan import SHAREABLE, Plan
from .report import ClassReport, foreign_report

# resctrl.rst: every ctrl_group is a monitoring group too. info/*/num_closids is compared before any creation.
_NO_RMID = (
    "each class uses one RMID, and workloads may use all of them: apply classes before workloads start, or free a "
    "group (`resctrl-hook list` shows the pods with a group)"
)

_MB = "MB"
_LOCKED = "pseudo-lock"  # the modes pseudo-locksetup and pseudo-locked
PATIENCE = 10.0
"""Maximum seconds to wait for another process that changes classes."""

Capacity = dict[str, float]


class Classes:
    """The declared and the present classes of a node.

    ``capacity`` is ``monitoring.capacity`` in bytes per second. The values that ``held`` returns do not count as
    differences. The record of exclusive classes' changes is in the ledger's folder.

    Raises:
        NotMountedError, ResctrlError: from every method; resctrl is missing or unreadable, or the kernel refuses.
    """

    def __init__(
        self,
        resctrl: Resctrl,
        declared: dict[str, Any],
        ledger: Ledger,
        proc: str,
        *,
        capacity: Capacity | None = None,
        held: Callable[[], Held] = Held,
    ) -> None:
        self._resctrl, self._ledger, self._proc = resctrl, ledger, proc
        self._declared, self._capacity, self._read_held = declared, capacity, held
        self._read()

    @classmethod
    def of_node(cls, context: Context) -> "Classes":
        """Return the classes of a node with its active settings."""
        settings = context.settings
        return cls(
            context.monitor.resctrl,
            settings.rdt.get("classes") or {},
            context.ledger,
            context.proc,
            capacity=settings.monitoring.get("capacity"),
            held=lambda: held_values(context),
        )

    def _read(self) -> None:
        """Read the present classes, and plan the changes."""
        self._held = self._read_held()
        self._can = read_abilities(self._resctrl.root, self._resctrl.proc)
        self._there = present_classes(self._resctrl)
        self._foreign = sorted(foreign_classes(self._resctrl))
        self._before = read_before(self._ledger.folder, self._proc)
        now = {name: read_schemata(self._resctrl.root, _folder(name)) for name in (ROOT_NAME, *self._there)}
        self._plan = Plan(self._declared, self._can, now, self._before, self._capacity)

    def show(self) -> list[ClassReport]:
        """Return every class: the root's first, the declared ones, the rest, then those whose names are refused."""
        specs = self._plan.specs
        names = [ROOT_NAME, *(name for name in specs if name != ROOT_NAME)]
        reports = [self._report(name) for name in [*names, *sorted(set(self._there) - {*specs})]]
        return reports + [foreign_report(self._resctrl, name) for name in self._foreign]

    def apply(self, *, dry_run: bool = False) -> list[ClassReport]:
        """Create missing declared classes and write schemata and modes that differ. Removes nothing.

        Everything is validated first: if one class is impossible here, nothing is changed. Calls in other processes
        wait until this one is done.

        Raises:
            LockTimeoutError: another call has not ended for `PATIENCE` seconds.
            LedgerError: the state directory is unusable.
        """
        if dry_run:
            return self._applied_or_planned(dry_run=True)
        with self._ledger.lock_named(LOCK, PATIENCE):
            self._read()  # another call may have changed classes and record since
            return self._applied_or_planned(dry_run=False)

    def _applied_or_planned(self, *, dry_run: bool) -> list[ClassReport]:
        reports = [self._report(name) for name in {**self._plan.desired, **self._plan.modes}]
        missing = [report.name for report in reports if report.state == "missing"]
        exist = 1 + len(self._there) + len(self._foreign)
        if self._can.classes and exist + len(missing) > self._can.classes:
            text = f"this processor supports {self._can.classes} classes including the root class; {exist} exist"
            reports = [report.model_copy(update={"state": "impossible", "problems": [text]}) for report in reports]
        if any(report.state == "impossible" for report in reports):
            return reports
        if dry_run:
            return [report.model_copy(update={"planned": self._planned(report)}) for report in reports]
        return self._applied(reports)

    def _report(self, name: str) -> ClassReport:
        folder = _folder(name)
        exists = not folder or name in self._there
        have: Schemata = read_schemata(self._resctrl.root, folder) if exists else {}
        report = ClassReport(name=name, state="not declared", schemata=have)
        if exists:
            report.tasks = len(self._resctrl.tasks(folder, ""))
            report.mode = kernel_text(f"{self._resctrl.class_folder(folder)}/mode")
        report.units = {resource: unit for resource, unit in self._plan.units.items() if resource in have}
        spec, problems = self._plan.specs.get(name), self._plan.problems.get(name)
        report.declared = {resource: value for resource, value in (spec or {}).items() if value is not None}
        held = self._held.declared.get(folder, {})
        report.held = {domain: value for domain, value in held.items() if domain in have.get(_MB, {})}
        report.owner = self._held.owner
        if spec is not None and report.mode.startswith(_LOCKED):
            problems = [f"its mode is {report.mode}, so that the kernel refuses other schemata; remove the class"]
        report.problems = problems or (self._differences(report, spec or {}) if exists else [])
        obstacle = self._plan.obstacles.get(name)
        if obstacle is not None and not obstacle.declared:
            report.notes.append(f"the kernel's mode stays {SHAREABLE}: {obstacle.text}")
        if name == ROOT_NAME:
            report.notes += self._plan.left(have)
        if problems:
            report.state = "impossible"
        elif not exists:
            report.state = "missing"
        elif report.problems:
            report.state = "differs"
        elif spec is not None:
            report.state = "as declared"
        return report

    def _differences(self, report: ClassReport, spec: dict[str, Any]) -> list[str]:
        have = _as_declared(report.schemata, report.held)
        found = differences(self._plan.desired.get(report.name, {}), have, spec, self._plan.roundings)
        obstacle = self._plan.obstacles.get(report.name)
        if obstacle is not None and obstacle.declared:
            found.append(f"not exclusive: {obstacle.text}; declare that class, or change its schemata")
        mode = self._plan.modes.get(report.name, report.mode)
        if report.mode and mode != report.mode:
            found.append(f"mode is {report.mode}, declared {mode}")
        return found

    def _planned(self, report: ClassReport) -> list[str]:
        """Return the lines to write to schemata and mode, in the kernel's order."""
        if report.state not in ("missing", "differs"):
            return []
        now = _as_declared(report.schemata, report.held)
        desired = self._plan.desired.get(report.name, {})
        rows = lines(
            {
                name: values
                for name, values in desired.items()
                if differences({name: values}, now, roundings=self._plan.roundings)
            }
        )
        mode = self._plan.modes.get(report.name)
        loosened = report.mode == EXCLUSIVE and (rows or mode == SHAREABLE)
        tightened = mode == EXCLUSIVE and (loosened or report.mode != EXCLUSIVE)
        return [
            *([_MODE_LINES[SHAREABLE]] if loosened else []),
            *rows,
            *([_MODE_LINES[EXCLUSIVE]] if tightened else []),
        ]

    def _applied(self, reports: list[ClassReport]) -> list[ClassReport]:
        modes = [name for name, mode in self._plan.modes.items() if mode == EXCLUSIVE]
        record = self._before.extended(self._plan.narrowed, self._plan.now)
        updated = record.model_copy(update={"modes": sorted({*modes, *self._before.modes} & {*self._plan.now})})
        if updated != self._before:
            write_before(self._ledger.folder, updated)
        done: dict[str, list[str]] = {report.name: [] for report in reports}
        try:
            self._write(reports, done)
        except ResctrlError:
            self._undo(reports, done)
            raise
        updated = record.model_copy(update={"modes": sorted(modes)})
        if updated != read_before(self._ledger.folder, self._proc):
            write_before(self._ledger.folder, updated)
        self._there = present_classes(self._resctrl)
        return [self._report(name).model_copy(update={"done": rows}) for name, rows in done.items()]

    def _write(self, reports: list[ClassReport], done: dict[str, list[str]]) -> None:
        for report in reports:
            if self._planned(report)[:1] == [_MODE_LINES[SHAREABLE]]:
                self._write_mode(report.name, SHAREABLE)
                done[report.name].append(_MODE_LINES[SHAREABLE])
        for report in reports:
            if report.state == "missing":
                self._create(report.name)
                done[report.name].append("created")
        for report in reports:
            present = report.model_copy(update={"schemata": read_schemata(self._resctrl.root, _folder(report.name))})
            for line in [line for line in self._planned(present) if line not in _MODE_LINES.values()]:
                write_schemata(self._resctrl, _folder(report.name), line)
                done[report.name].append(line)
        for report in reports:
            if self._planned(report)[-1:] == [_MODE_LINES[EXCLUSIVE]]:
                self._write_mode(report.name, EXCLUSIVE)
                done[report.name].append(_MODE_LINES[EXCLUSIVE])

    def _undo(self, reports: list[ClassReport], done: dict[str, list[str]]) -> None:
        """Restore what was written before the kernel refused a value, the last first, as far as it permits that."""
        for report in reversed([report for report in reports if done[report.name]]):
            if report.state == "missing":
                with suppress(OSError):
                    os.rmdir(self._resctrl.class_folder(report.name))
                continue
            for line in reversed([line for line in done[report.name] if line not in _MODE_LINES.values()]):
                resource = line.partition(":")[0]
                with suppress(ResctrlError):
                    write_schemata(self._resctrl, _folder(report.name), *lines({resource: report.schemata[resource]}))
            if _MODE_LINES[SHAREABLE] in done[report.name]:
                with suppress(ResctrlError):
                    self._write_mode(report.name, EXCLUSIVE)

    def _create(self, name: str) -> None:
        try:
            os.mkdir(self._resctrl.class_folder(name))
        except OSError as error:
            raise ResctrlError(
                f"cannot create RDT class {name}",
                hint=_NO_RMID if error.errno == errno.ENOSPC else "",
                errno=error.errno or 0,
                kernel=last_cmd_status(self._resctrl),
            ) from error

    def _write_mode(self, name: str, mode: str) -> None:
        try:
            self._resctrl.fs.write(f"{self._resctrl.class_folder(_folder(name))}/mode", f"{mode}\n".encode())
        except OSError as error:
            raise ResctrlError(
                f"cannot make RDT class {name} {mode}", errno=error.errno or 0, kernel=last_cmd_status(self._resctrl)
            ) from error


_MODE_LINES = {mode: f"mode {mode}" for mode in (SHAREABLE, EXCLUSIVE)}


def _folder(name: str) -> str:
    return "" if name == ROOT_NAME else name


def _as_declared(have: Schemata, held: dict[int, int]) -> Schemata:
    """Return the current schemata without the changes that are held."""
    if not held:
        return have
    return {**have, _MB: {**have[_MB], **{domain: str(value) for domain, value in held.items()}}}
