"""The desired state of a host: every file of an installation with its role, in the order of writing."""

import os
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from resctrl_hooks.core.config.applied import read_compiled
from resctrl_hooks.core.node.host.files import parse_json
from resctrl_hooks.core.node.nfd.features import FIRST as FIRST_FEATURES
from resctrl_hooks.core.node.settings import Settings, active_path, compiled_path
from resctrl_hooks.core.parts import load

from .directories import RUNTIMES, choose
from .hook_json import hook_json
from .houses import needed
from .paths import CODE, HOOK_NAME, LAUNCH, PYTHON, UNITS
from .payload import NFD, Payload, payload
from .roles import DROP_IN, FEATURES, HOOK, LAUNCHER, LINK, MODULE, ROLES, SETTINGS, UNIT
from .settings_files import ADDITIONS, compiled_files, edited_settings, unapplied, with_sections
from .tree import Tree
from .unit_files import RESIDENT, enabling_link, resident, units
from .units import MOUNT

_READABLE: Final = 0o644
_TYPE: Final = 2  # the field of an fstab line


class PlannedFile(NamedTuple):
    """A file as seen from the host's root; the data of a link is its target."""

    path: str
    data: bytes
    role: str
    mode: int = _READABLE


class Plan(NamedTuple):
    """Files in the order of writing, `ROLES`."""

    payload: Payload
    files: list[PlannedFile]
    registrations: dict[str, list[str]]
    """By runtime, the files that make it call the hook."""
    config: str
    python: str
    notes: list[str]
    """Remarks for the operator."""
    services: Sequence[str] = ()
    """The resident services that the settings need, also without units."""


def plan(
    runtimes: tuple[str, ...],
    config: str,
    *,
    root: str = "",
    python: str = PYTHON,
    with_units: bool = True,
    earlier_units: bool = False,
    chosen: Collection[str] = (),
    sections: Mapping[str, bool | None] = MappingProxyType({}),
    nfd: bool = False,
) -> Plan:
    """Return the files that an installation for these runtimes writes on the host below ``root``.

    ``earlier_units``: the mount unit on the host is an earlier installation's. ``chosen``: houses whose services also
    serve runtimes that call hooks; a runtime that calls none always uses its service. ``sections``: by name, whether
    to add a section to the configuration; None adds it to a new one for some runtimes. ``nfd``: add the file for
    node-feature-discovery, whose facts reconcile writes.

    Raises:
        InvalidConfigError, OSError, RuntimeConfigError: existing files on the host are unusable.
    """
    notes: list[str] = []
    houses = {*chosen, *(RUNTIMES[name].house for name in runtimes)} - {""}
    by_option = [one for one in ADDITIONS if sections.get(one.section)]
    by_runtime = [
        one for one in ADDITIONS if sections.get(one.section, False) is None and {*one.runtimes} & {*runtimes}
    ]
    settings_files = compiled_files(config, root, by_option + by_runtime)
    if by_option and not settings_files:
        enabled = with_sections(config, by_option, root)
        settings_files = enabled or {}
        lacking = [one.section for one in by_option] if enabled is None else []
        again = f"in {config}, and install again"
        notes += [f"the {name} is not enabled: set `{name}: {{enabled: true}}` {again}" for name in lacking]
    files = [PlannedFile(path, data, SETTINGS) for path, data in settings_files.items()]
    settings = _settings(config, root, settings_files)
    code = payload(needed(settings, {*houses, *([NFD] if nfd else [])}, root, edited_settings(config, root)))
    files += [PlannedFile(f"{CODE}/{code.folder}/{name}", data, MODULE) for name, data in code.modules.items()]
    files.append(PlannedFile(LAUNCH, code.launch(), LAUNCHER))
    if nfd:
        facts = Tree(root).read(settings.node_features_path)  # those that reconcile has written
        files.append(
            PlannedFile(settings.node_features_path, FIRST_FEATURES.encode() if facts is None else facts, FEATURES)
        )
    residents = resident(settings, houses)
    if with_units:
        texts = units(
            config,
            python=python,
            state=settings.state_dir,
            resctrl=settings.resctrl_path,
            features=settings.node_features_path,
        )
        # A unit with exactly this content is ours although its record was lost.
        if mounted_otherwise(root, ours=earlier_units or Tree(root).read(f"{UNITS}/{MOUNT}") == texts[MOUNT]):
            del texts[MOUNT]
            notes.append("this host already mounts resctrl; its mount is not changed")
        disabled = set(RESIDENT) - set(residents)
        there = {f"{UNITS}/{name}": data for name, data in texts.items() if name not in disabled}
        files += [PlannedFile(path, data, UNIT) for path, data in there.items()]
        files += [PlannedFile(enabling_link(path), path.encode(), LINK) for path in there if enabling_link(path)]
    notes += unapplied(config, root)
    registrations: dict[str, list[str]] = {}
    for name in runtimes:
        directory = choose(name, root)
        added = [PlannedFile(f"{directory.path}/{HOOK_NAME}", hook_json(config, python=python), HOOK)]
        if directory.drop_in:
            added.append(PlannedFile(*directory.drop_in, DROP_IN))
            if RUNTIMES[name].restart:
                notes.append(f"{name} reads its hook directories when it starts: {RUNTIMES[name].restart}")
        registrations[name] = [file.path for file in added]
        files += added
        runtime = RUNTIMES[name]
        if runtime.connect:
            turned_on, more = load(runtime.connect)(root)
            files += [PlannedFile(path, data, DROP_IN) for path, data in turned_on.items()]
            registrations[name] += [*turned_on, *([f"{UNITS}/{runtime.service}"] if with_units else [])]
            notes += more
            if not with_units:
                notes.append(runtime.by_hand)
    unique = {file.path: file for file in files}
    ordered = sorted(unique.values(), key=lambda file: ROLES.index(file.role))
    return Plan(code, ordered, registrations, config, python, notes, residents)


def _settings(config: str, root: str, planned: dict[str, bytes]) -> Settings:
    """Return the settings that will be active."""
    data = planned.get(compiled_path(config))
    return Settings(parse_json(data) if data is not None else read_compiled(active_path(root + config)) or {})


def mounted_otherwise(root: str, *, ours: bool) -> bool:
    """Return whether the host mounts resctrl by an fstab line or by a mount unit that is not ours."""
    fstab = (Tree(root).read("/etc/fstab") or b"").decode("utf-8", "replace")
    lines = [line.split() for line in fstab.splitlines()]
    if any(len(words) > _TYPE and words[_TYPE] == "resctrl" and not words[0].startswith("#") for words in lines):
        return True
    return not ours and os.path.lexists(f"{root}{UNITS}/{MOUNT}")
