"""The systemd units: resctrl's mount, bytecode at boot, reconcile with timer and path unit, the resident services."""

from typing import Final

from resctrl_hooks.node.guard.section import OFF
from resctrl_hooks.node.guard.section import section as guard
from resctrl_hooks.node.history.section import section as history
from resctrl_hooks.node.names import NODE_FEATURES, RESCTRL_ROOT, STATE_DIR
from resctrl_hooks.node.settings import Settings
from resctrl_hooks.node.slowdown.section import section as slowdown
from resctrl_hooks.node.watch.wanted import WATCH

from . import unit_texts
from .guard import node_command
from .paths import BOOT_CODE, CODE, LAUNCH, PYTHON, UNITS

MOUNT: Final = "sys-fs-resctrl.mount"
COMPILE: Final = "resctrl-hooks-compile.service"
RECONCILE: Final = "resctrl-hooks-reconcile.service"
NRI: Final = "resctrl-hooks-nri.service"
EXEC: Final = "resctrl-hooks-exec.service"
GUARD: Final = "resctrl-hooks-guard.service"
TIMER: Final = "resctrl-hooks-reconcile.timer"
WAKE: Final = "resctrl-hooks-reconcile.path"

_HOST: Final = "multi-user.target"
_TABLE: Final = {
    MOUNT: (unit_texts.MOUNT, "local-fs.target"),
    COMPILE: (unit_texts.COMPILE, _HOST),
    RECONCILE: (unit_texts.RECONCILE, ""),
    NRI: (unit_texts.NRI, _HOST),
    EXEC: (unit_texts.EXEC, _HOST),
    GUARD: (unit_texts.GUARD, _HOST),
    TIMER: (unit_texts.TIMER, "timers.target"),
    WAKE: (unit_texts.WAKE, "paths.target"),
}
"""The text of each unit, and the target that starts it. Timer and path units start the reconcile service."""
ALL: Final = tuple(_TABLE)
WANTED_BY: Final = {name: target for name, (_, target) in _TABLE.items() if target}
ENABLED: Final = tuple(WANTED_BY)
"""Units to enable and start."""
RESIDENT: Final = (GUARD, NRI, EXEC)
"""Services of which a node has those that its settings and its runtimes need."""

WITHOUT_SYSTEMD: Final = (
    "mount resctrl at boot, and keep `resctrl-hook reconcile --watch 30` running, "
    "or have cron run it each minute: * * * * * root {command}"
)
"""Alternative without systemd, for /etc/cron.d."""
KEEP_RUNNING: Final = {
    GUARD: "keep `resctrl-hook guard run` running, too: it writes the history, judges pods, and is the guard",
    EXEC: "keep `resctrl-hook watch` running, too: it counts processes that enter running containers",
}
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
        name: (text.format(**fields) + (_INSTALL.format(target) if target else "")).encode()
        for name, (text, target) in _TABLE.items()
    }


def enabling_link(path: str) -> str:
    """Return the link that enables the unit at a path, as `systemctl enable` creates it; empty for other files."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{WANTED_BY[name]}.wants/{name}" if folder == UNITS and name in WANTED_BY else ""


def resident(settings: Settings, *, nri: bool) -> list[str]:
    """Return those of the `RESIDENT` services that a node with these settings needs, with ``nri`` also the plugin's.

    The plugin's service watches execs too.
    """
    watching = [NRI] if nri else [EXEC] if settings.monitoring["exec"] == WATCH else []
    samples = guard(settings)["mode"] != OFF or history(settings)["enabled"] or slowdown(settings)["enabled"]
    return [GUARD, *watching] if samples else watching


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
