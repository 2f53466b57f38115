"""Checks of a configuration file, as in `config check`: syntax, validation, and trust."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.host.files import format_json, read_file

from .document import Document, DocumentError, parse_document
from .foreign_file import foreign
from .machine import Machine
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
        cannot_read = Problem(f"cannot read the file: {error.strerror}", right, file=path)
        return Checked(path, None, [cannot_read], readable=False)
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
        found += _remarks_here(config, document)
    return Checked(path, config, found)


def _remarks(config: Configuration, document: Document) -> Iterator[Problem]:
    for above, section in _sections(config, ()):
        yield from _problems(above, section.remarks(), document)
    for name in sorted(config.model_fields_set):
        section = getattr(config, name)
        if isinstance(section, FeatureSection) and name not in FEATURES:
            yield at((name,), document, "this version ignores this section", severity="warning")


def _remarks_here(config: Configuration, document: Document) -> Iterator[Problem]:
    machine = Machine(config.resctrl_path, config.sys_path)
    for above, section in reversed([*_sections(config, ())]):  # the last section first
        yield from _problems(above, section.remarks_here(machine), document)


def _problems(above: KeyPath, remarks: list[Remark], document: Document) -> Iterator[Problem]:
    return (at((*above, *remark.at), document, remark.text, severity=remark.severity) for remark in remarks)


def _sections(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Section]]:
    """Yield a section and every section below it, each with its path."""
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Section):
        yield path, value
        items = ((info.alias or name, getattr(value, name)) for name, info in type(value).model_fields.items())
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield from _sections(item, (*path, key))


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
