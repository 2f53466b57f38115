"""The service of the sampling process, and whether settings need it."""

from typing import Final

from resctrl_hooks.core.install.unit import Unit
from resctrl_hooks.core.install.unit_texts import RIGHTS, SANDBOX, WITH_CODE
from resctrl_hooks.core.install.units import HOST
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.node.guard.section import OFF
from resctrl_hooks.observe.node.guard.section import section as guard
from resctrl_hooks.observe.node.guard.status import read_process
from resctrl_hooks.observe.node.history.section import section as history
from resctrl_hooks.observe.node.slowdown.section import section as slowdown

GUARD: Final = "resctrl-hooks-guard.service"

_COUNTING: Final = RIGHTS.replace("CAP_KILL", "CAP_KILL CAP_PERFMON").format(
    state="{state}",
    resctrl="{resctrl}",
    settings="{settings}",
    features="",
    sandbox=SANDBOX.replace("@system-service", "@system-service perf_event_open"),
)

# The sampling process, which keeps the name of its first part for upgrades. The guard writes the schemata of classes
# and its own files; ExecStopPost restores its changes after any exit. History and baselines are in the state directory.
# Performance counters of cgroups need CAP_PERFMON (Linux 5.8), their call, and a descriptor for each event and CPU.
# Counter files that stay open need descriptors too.
_TEXT: Final = f"""\
[Unit]
Description=resctrl-hooks: sampling process (history; slowdown; rdt.guard, experimental)
After={{mount}} {{compile}}
Requires={{mount}}

[Service]
Type=notify
{WITH_CODE}
ExecStart={{node}} guard run
ExecStopPost={{node}} guard restore
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
WatchdogSec=180
StateDirectory=resctrl-hooks
StateDirectoryMode=0700
LimitNOFILE=32768
{_COUNTING}"""


def is_needed(settings: Settings) -> bool:
    """Return whether the history, the judgement of pods, or the guard is on."""
    return bool(guard(settings)["mode"] != OFF or history(settings)["enabled"] or slowdown(settings)["enabled"])


UNITS: Final = (
    Unit(
        GUARD,
        _TEXT,
        60,
        HOST,
        resident=True,
        needed=is_needed,
        by_hand="keep `resctrl-hook guard run` running, too: it writes the history, judges pods, and is the guard",
        status=read_process,
    ),
)
