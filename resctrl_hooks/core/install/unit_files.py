"""The systemd units of all houses, and those that a node needs."""

from collections.abc import Collection
from typing import Final

from resctrl_hooks.core.node.names import NODE_FEATURES, RESCTRL_ROOT, STATE_DIR
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.core.parts import load, parts

from . import unit_texts
from .guard import node_command
from .paths import BOOT_CODE, CODE, LAUNCH, PYTHON, UNITS
from .unit import Unit
from .units import COMPILE, MOUNT, RECONCILE

BY_HOUSE: Final[dict[str, tuple[Unit, ...]]] = {part.name: load(part.units) for part in parts() if part.units}
ORDERED: Final = sorted((unit for its in BY_HOUSE.values() for unit in its), key=lambda unit: unit.rank)
SERVER: Final = next((unit for unit in ORDERED if unit.serves), None)
"""The service of containers whose runtime calls no hooks; None without its house."""
ALL: Final = tuple(unit.name for unit in ORDERED)
WANTED_BY: Final = {unit.name: unit.target for unit in ORDERED if unit.target}
ENABLED: Final = tuple(WANTED_BY)
"""Units to enable and start."""
_RESIDENT: Final = [unit for unit in reversed(ORDERED) if unit.resident]
RESIDENT: Final = tuple(unit.name for unit in _RESIDENT)
"""Services of which a node has those that its settings and its runtimes need, the last started first."""

BY_SETTINGS: Final = tuple(unit.name for unit in ORDERED if unit.needed is not None)
"""Those of them that settings can need, in the order of all units."""

WITHOUT_SYSTEMD: Final = (
    "mount resctrl at boot, and keep `resctrl-hook reconcile --watch 30` running, "
    "or have cron run it each minute: * * * * * root {command}"
)
"""Alternative without systemd, for /etc/cron.d."""
KEEP_RUNNING: Final = {unit.name: unit.by_hand for unit in _RESIDENT if unit.by_hand}
"""Alternatives without systemd, by the service that they replace."""

_RUNTIMES: Final = "crio.service containerd.service podman.service podman-restart.service kubelet.service"

_PERIOD: Final = 30
_BY_CHANCE: Final = 10
"""Seconds between two passes of reconcile at most, and the random part: turns must not be in step with a load."""
_INSTALL: Final = "\n[Install]\nWantedBy={}\n"


def units(
    config: str,
    *,
    state: str = STATE_DIR,
    resctrl: str = RESCTRL_ROOT,
    options: str = "",
    python: str = PYTHON,
    boot_code: str = "",
    features: str = NODE_FEATURES,
) -> dict[str, bytes]:
    """Return the units' texts by name.

    Args:
        config: The configuration's path, for ``--config``.
        state: The ledger's folder (``stateDir``).
        resctrl: resctrl's mount point; the mount unit exists for the kernel's default one only.
        options: Mount options of resctrl (``cdp``, ``mba_MBps``, …).
        python: The interpreter.
        boot_code: The folder for bytecode made at boot; empty if bytecode lies with the modules.
        features: The file for node-feature-discovery (``nodeFeaturesPath``).
    """
    runtime_folder = boot_code.removeprefix("/run/").partition("/")[0]
    compile_ = node_command(config, "compile", *([boot_code] if boot_code else []), python=python)
    fields = {
        "boot": f"RuntimeDirectory={runtime_folder}\nRuntimeDirectoryMode=0755\n" if boot_code else "",
        "code": CODE,
        "compile": COMPILE,
        "features": f" {_path(features.rpartition('/')[0])}",
        "compile_command": _line(compile_),
        "launch": LAUNCH,
        "mount": MOUNT,
        "node": _line(node_command(config, python=python)),
        "options": f"Options={options}\n" if options else "",
        "at_least": _PERIOD - _BY_CHANCE,
        "by_chance": _BY_CHANCE,
        "period": _PERIOD,
        "reconcile": RECONCILE,
        "resctrl": _path(resctrl),
        "runtimes": _RUNTIMES,
        "sandbox": unit_texts.SANDBOX,
        "settings": _path(config.rpartition("/")[0]),
        "state": _path(state),
        "wake": f"{state}/wake".replace("%", "%%"),
        "writes": f"-{BOOT_CODE}" if boot_code else f"-{CODE}",
    }
    return {
        unit.name: (unit.text.format(**fields) + (_INSTALL.format(unit.target) if unit.target else "")).encode()
        for unit in ORDERED
    }


def enabling_link(path: str) -> str:
    """Return the link that enables the unit at a path, as `systemctl enable` creates it; empty for other files."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{WANTED_BY[name]}.wants/{name}" if folder == UNITS and name in WANTED_BY else ""


def resident(settings: Settings, chosen: Collection[str] = ()) -> list[str]:
    """Return the `RESIDENT` services that a node with these settings needs, and those of ``chosen`` houses."""
    theirs = {unit for house in chosen for unit in BY_HOUSE.get(house, ())}
    needed = [unit for unit in _RESIDENT if unit in theirs or (unit.needed is not None and unit.needed(settings))]
    replaced = {unit.replaces for unit in needed}
    return [unit.name for unit in needed if unit.name not in replaced]


def _line(command: list[str]) -> str:
    """Return a command in systemd's syntax: % and $ doubled, words quoted where necessary."""
    return " ".join(_word(word.replace("%", "%%").replace("$", "$$")) for word in command)


def _path(path: str) -> str:
    """Return an optional path in a unit's list of paths."""
    return _word(f"-{path}".replace("%", "%%"))


def _word(word: str) -> str:
    if word and not set(word) & set(" \t\"'\\;"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
