"""The units of every installation: resctrl's mount, bytecode at boot, reconcile, and the exec watcher."""

from typing import Final

from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.core.node.watch.enabled import WATCH
from resctrl_hooks.core.node.watch.status import read_status

from . import unit_texts
from .unit import Unit

MOUNT: Final = "sys-fs-resctrl.mount"
COMPILE: Final = "resctrl-hooks-compile.service"
RECONCILE: Final = "resctrl-hooks-reconcile.service"
EXEC: Final = "resctrl-hooks-exec.service"
TIMER: Final = "resctrl-hooks-reconcile.timer"
WAKE: Final = "resctrl-hooks-reconcile.path"

HOST: Final = "multi-user.target"


def _watches(settings: Settings) -> bool:
    return bool(settings.monitoring["exec"] == WATCH)


UNITS: Final = (
    Unit(MOUNT, unit_texts.MOUNT, 10, "local-fs.target"),
    Unit(COMPILE, unit_texts.COMPILE, 20, HOST),
    Unit(RECONCILE, unit_texts.RECONCILE, 30),
    Unit(
        EXEC,
        unit_texts.EXEC,
        40,
        HOST,
        resident=True,
        needed=_watches,
        by_hand="keep `resctrl-hook watch` running, too: it counts processes that enter running containers",
        status=read_status,
    ),
    Unit(TIMER, unit_texts.TIMER, 70, "timers.target"),
    Unit(WAKE, unit_texts.WAKE, 80, "paths.target"),
)
"""Timer and path units start the reconcile service."""
