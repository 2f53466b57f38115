"""Checks of a configuration file, as in `config check`: syntax, validation, and trust."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.host.cpulist import format_list, parse_list
from resctrl_hooks.node.host.files import format_json, read_file, read_kernel_file
from resctrl_hooks.node.resctrl.bandwidth_unit import PER_CENT, convert, rounded
from resctrl_hooks.rdt.capabilities import read_abilities
from resctrl_hooks.rdt.layout import lay_out

from .document import Document, DocumentError, parse_document
from .foreign_file import foreign
from .plugin_keys import with_our_case
from .problems import InvalidConfigError, Problem, at, of_validation
from .root import Configuration
from .section import FeatureSection, KeyPath, Remark, Section, by_key

LARGEST = 1 << 20  # the node half refuses larger compiled files
_HEAD = 200  # metadata of the compiled file, in bytes


@dataclass
class Checked:
    """A configuration file and its problems; ``config`` is None if there are errors."""

    file: str
    config: Configuration | None = None
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True

    @property
    def errors(self) -> list[Problem]:
        """The problems that make it invalid."""
        return [problem for problem in self.problems if problem.severity == "error"]

    @property
    def remarks(self) -> list[Problem]:
        """The problems that leave it valid."""
        return [problem for problem in self.problems if problem.severity != "error"]

    def valid(self) -> Configuration:
        """Return the configuration.

        Raises:
            InvalidConfigError: it is invalid.
        """
        if self.config is None:
            raise InvalidConfigError(self.errors)
        return self.config


def check_file(path: str) -> Checked:
    """Read and check a configuration file; all problems are in the result, none is raised."""
    try:
        text = read_file(path, LARGEST, follow=True)
    except OSError as error:
        right = "create it, or name another file with --config" if error.errno == errno.ENOENT else ""
        unread = Problem(f"cannot read the file: {error.strerror}", right, file=path)
        return Checked(path, None, [unread], readable=False)
    checked = check_text(text, path, here=True)
    checked.problems += trust_problems(path)
    return checked


def check_text(text: bytes, path: str, *, here: bool = False) -> Checked:
    """Check the text of a configuration file; ``here`` also checks it against this machine."""
    try:
        document = parse_document(text, path)
    except DocumentError as error:
        return Checked(path, None, [Problem(error.what, error.right, "", error.line, path)])
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        what = "the configuration must be a mapping, not a list or a single value"
        return Checked(path, None, [Problem(what, "begin with a key such as `namespaces:`", "", 1, path)])
    value, renamed = with_our_case(value)
    try:
        config = Configuration.model_validate(value)
    except ValidationError as error:
        other = foreign(document.value, by_key(Configuration))
        problems = [other.problem(document)] if other else of_validation(error, Configuration, document)
        return Checked(path, None, problems)
    if len(format_json(config.given())) > LARGEST - _HEAD:
        # Compiling expands aliases and escapes non-ASCII text. A file above the limit would disable the hooks.
        what = f"the compiled configuration is larger than {LARGEST} bytes, the limit of the hooks"
        return Checked(path, None, [Problem(what, "use patterns (`team-*`) for many names", file=path)])
    found = [*_remarks(config, document)]
    found += [at((key,), document, f"this is read as {name}", f"write {name}", "note") for key, name in renamed.items()]
    if here:
        found += [*_about_this_machine(config, document), *_about_this_resctrl(config, document)]
    return Checked(path, config, found)


def _remarks(config: Configuration, document: Document) -> Iterator[Problem]:
    for above, remark in _walk(config, ()):
        yield at((*above, *remark.at), document, remark.text, severity="note")
    for name in sorted(config.model_fields_set):
        section = getattr(config, name)
        if isinstance(section, FeatureSection) and name not in FEATURES:
            yield at((name,), document, "this version ignores this section", severity="warning")


def _about_this_machine(config: Configuration, document: Document) -> Iterator[Problem]:
    """Yield a remark for CPUs that this machine cannot have, hot-plug included.

    Source: sysfs-devices-system-cpu, ``possible``.
    """
    try:
        possible = read_kernel_file(f"{config.sys_path}/devices/system/cpu/possible").decode().strip()
        there = parse_list(possible)
    except (OSError, ValueError):
        return
    pools = enumerate(config.placement.pools)
    sets = [(("placement", "pools", place, "cpus"), pool.cpus or "") for place, pool in pools]
    for path, cpus in [(("placement", "reservedCpus"), config.placement.reserved_cpus), *sets]:
        missing = parse_list(cpus) & ~there
        if missing:
            what = f"this machine has no CPU {format_list(missing)}, only {possible}"
            yield at(path, document, what, severity="note")


def _about_this_resctrl(config: Configuration, document: Document) -> Iterator[Problem]:
    """Yield a remark for RDT classes that `rdt apply` would reject here, and for floors that the kernel rounds."""
    classes = config.rdt.given().get("classes", {})
    throttled = config.rdt.guard.throttle
    if not classes and not throttled:
        return
    try:
        can = read_abilities(config.resctrl_path)
    except HookError:
        return  # without resctrl this is probably not the target machine
    mb = can.bandwidths.get("MB")
    for name, rule in throttled.items() if mb is not None and mb.unit == PER_CENT else ():
        assert mb is not None
        number = convert(f"{rule.floor}%" if isinstance(rule.floor, int) else rule.floor, PER_CENT)[0]
        if effective := rounded(max(number, mb.least), mb.step) - number:
            text = f"the floor is {number + effective} on this machine, whose MB values are multiples of {mb.step}"
            yield at(("rdt", "guard", "throttle", name, "floor"), document, text, severity="note")
    for name, problems in lay_out(classes, can).problems.items():
        for what in problems:
            text = f"not supported on this machine: {what}"
            yield at(("rdt", "classes", name), document, text, severity="warning")


def _walk(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Remark]]:
    """Yield the remarks of a section and of every section below it."""
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Section):
        yield from ((path, remark) for remark in value.remarks())
        items = ((info.alias or name, getattr(value, name)) for name, info in type(value).model_fields.items())
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield from _walk(item, (*path, key))


def trust_problems(path: str) -> list[Problem]:
    """Return the reasons to distrust a configuration file: its commands, for example memtierd's, run as root."""
    found = []
    for place, what in ((path, ""), (os.path.dirname(os.path.abspath(path)), "its directory ")):
        try:
            seen = os.stat(place)
        except OSError:
            continue
        if seen.st_uid not in (0, os.geteuid()):
            found.append(f"{what}belongs to user {seen.st_uid}, who can change files that root executes or reads")
        if seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (what and seen.st_mode & stat.S_ISVTX):
            found.append(f"{what}is writable by users other than its owner (mode {stat.S_IMODE(seen.st_mode):04o})")
    return [Problem(text, "run chown root and chmod go-w on it", file=path, severity="warning") for text in found]
