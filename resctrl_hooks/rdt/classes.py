"""Comparison of this machine's classes with the declared ones for `rdt show`, and creation for `rdt apply`."""

import errno
import os
from typing import Any, Literal

from pydantic import BaseModel

from resctrl_hooks.node.errors import ResctrlError
from resctrl_hooks.node.host.files import kernel_text
from resctrl_hooks.node.resctrl.filesystem import Resctrl
from resctrl_hooks.node.resctrl.schemata import write_schemata

from .capabilities import Capabilities, Schemata, read_abilities, read_schemata
from .config import ROOT_NAME, differences, lines, overlaps, wanted_schemata

# resctrl.rst: every ctrl_group is a monitoring group too. info/*/num_closids is compared before any creation.
_NO_RMID = (
    "each class uses one RMID, and workloads may use all of them: apply classes before workloads start, or free a "
    "group (`resctrl-hook list` shows the pods with a group)"
)

_MB = "MB"

State = Literal["as declared", "missing", "differs", "impossible", "not declared"]


class ClassReport(BaseModel):
    """One class: how it is, and where that differs from how it is declared."""

    name: str
    state: State
    schemata: dict[str, dict[int, str]] = {}
    units: dict[str, str] = {}
    declared: dict[str, Any] = {}
    held: dict[int, int] = {}
    mode: str = ""
    tasks: int = 0
    problems: list[str] = []
    planned: list[str] = []
    done: list[str] = []


Capacity = dict[str, float]


Held = dict[str, dict[int, int]]
"""Declared MB values, by class and L3 domain, that the bandwidth guard has lowered temporarily."""


def show(
    resctrl: Resctrl, declared: dict[str, Any], capacity: Capacity | None = None, held: Held | None = None
) -> list[ClassReport]:
    """Return every class: the root's first, then the declared ones, then the rest.

    ``capacity`` is ``monitoring.capacity`` in bytes per second. Values in ``held`` do not count as differences.

    Raises:
        NotMountedError, ResctrlError: resctrl is missing or unreadable.
    """
    can = read_abilities(resctrl.root)
    there = resctrl.classes()
    names = [ROOT_NAME, *(name for name in declared if name != ROOT_NAME)]
    names += sorted(name for name in there if name not in declared)
    known = _Declared(declared, can, capacity or {}, held or {})
    return [_report(resctrl, name, known, there) for name in names]


def apply(
    resctrl: Resctrl,
    declared: dict[str, Any],
    capacity: Capacity | None = None,
    held: Held | None = None,
    *,
    dry_run: bool = False,
) -> list[ClassReport]:
    """Create missing declared classes and write schemata that differ. Removes nothing.

    Everything is validated first: if one class is impossible here, nothing is changed.

    Raises:
        NotMountedError, ResctrlError: resctrl is missing, or the kernel refuses.
    """
    can = read_abilities(resctrl.root)
    there = resctrl.classes()
    known = _Declared(declared, can, capacity or {}, held or {})
    reports = [_report(resctrl, name, known, there) for name in declared]
    missing = [report.name for report in reports if report.state == "missing"]
    if can.classes and len(there) + 1 + len(missing) > can.classes:
        text = f"this processor supports {can.classes} classes including the root class; {len(there) + 1} exist"
        reports = [report.model_copy(update={"state": "impossible", "problems": [text]}) for report in reports]
    if any(report.state == "impossible" for report in reports):
        return reports
    if dry_run:
        return [report.model_copy(update={"planned": _planned(report, known)}) for report in reports]
    return [_applied(resctrl, report, known) for report in reports]


class _Declared:
    """The declared classes as schemata of this machine, and the values of each that it cannot provide."""

    def __init__(self, specs: dict[str, Any], can: Capabilities, capacity: Capacity, held: Held) -> None:
        self.held = held
        self.specs = {name: spec or {} for name, spec in specs.items()}
        self.units = {name: bandwidth.unit for name, bandwidth in can.bandwidths.items()}
        both = {name: wanted_schemata(spec, can, capacity) for name, spec in self.specs.items()}
        self.wanted = {name: wanted for name, (wanted, _) in both.items()}
        overlapping = overlaps(self.wanted, self.specs)
        self.problems = {name: problems + overlapping.get(name, []) for name, (_, problems) in both.items()}


def _report(resctrl: Resctrl, name: str, known: _Declared, there: list[str]) -> ClassReport:
    folder = "" if name == ROOT_NAME else name
    exists = not folder or name in there
    have: Schemata = read_schemata(resctrl.root, folder) if exists else {}
    report = ClassReport(name=name, state="not declared", schemata=have)
    if exists:
        report.tasks = len(resctrl.tasks(folder, ""))
        report.mode = kernel_text(f"{resctrl.class_folder(folder)}/mode")
    report.units = {resource: unit for resource, unit in known.units.items() if resource in have}
    if name not in known.specs:
        return report
    spec, problems = known.specs[name], known.problems[name]
    report.declared = {resource: value for resource, value in spec.items() if value is not None}
    report.held = {domain: value for domain, value in known.held.get(folder, {}).items() if domain in have.get(_MB, {})}
    have = _without_guard(have, report.held)
    report.problems = problems or (differences(known.wanted[name], have, spec) if exists else [])
    if problems:
        report.state = "impossible"
    elif not exists:
        report.state = "missing"
    else:
        report.state = "differs" if report.problems else "as declared"
    return report


def _without_guard(have: Schemata, held: dict[int, int]) -> Schemata:
    """Return the current schemata without the bandwidth guard's changes."""
    if not held:
        return have
    return {**have, _MB: {**have[_MB], **{domain: str(value) for domain, value in held.items()}}}


def _applied(resctrl: Resctrl, report: ClassReport, known: _Declared) -> ClassReport:
    folder = "" if report.name == ROOT_NAME else report.name
    done = []
    if report.state == "missing":
        try:
            os.mkdir(resctrl.class_folder(folder))
            done.append("created")
        except OSError as error:
            raise ResctrlError(
                f"cannot create RDT class {report.name}",
                hint=_NO_RMID if error.errno == errno.ENOSPC else "",
                errno=error.errno or 0,
                kernel=resctrl.last_cmd_status(),
            ) from error
    for line in _planned(report.model_copy(update={"schemata": read_schemata(resctrl.root, folder)}), known):
        write_schemata(resctrl, folder, line)
        done.append(line)
    after = _report(resctrl, report.name, known, resctrl.classes())
    return after.model_copy(update={"done": done})


def _planned(report: ClassReport, known: _Declared) -> list[str]:
    """Return the schemata lines to write."""
    if report.state not in ("missing", "differs"):
        return []
    wanted = known.wanted[report.name]
    now = _without_guard(report.schemata, report.held)
    return lines({name: values for name, values in wanted.items() if differences({name: values}, now)})
