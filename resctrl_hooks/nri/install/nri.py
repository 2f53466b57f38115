"""The NRI plugin's service, and the runtime that it serves."""

from typing import Final

from resctrl_hooks.core.install.paths import ADMIN_HOOKS, LAUNCH, VENDOR_HOOKS
from resctrl_hooks.core.install.runtime import Runtime
from resctrl_hooks.core.install.unit import Unit
from resctrl_hooks.core.install.unit_texts import WITH_CODE
from resctrl_hooks.core.install.units import EXEC, HOST
from resctrl_hooks.nri.node.status import read_status

NRI: Final = "resctrl-hooks-nri.service"

# The plugin does what hooks do on behalf of a runtime, so it has the same access as reconcile. Programs that it starts
# for a container outlive it; an event in progress is completed at shutdown. Block I/O classes name devices, so the unit
# can see them; it opens none. The address families and CAP_NET_ADMIN are the exec watcher's.
_TEXT: Final = f"""\
[Unit]
Description=resctrl-hooks: NRI plugin of containerd or CRI-O
Documentation=https://github.com/containerd/nri
After={{mount}} {{compile}} {{runtimes}}
# The runtime may start later or restart; the plugin waits for it.
StartLimitIntervalSec=0

[Service]
Type=notify
{WITH_CODE}
ExecStart={{node}} nri
TimeoutStartSec=infinity
Restart=always
RestartSec=1
WatchdogSec=180
KillMode=process
OOMScoreAdjust=-900
UMask=0077
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_KILL CAP_SYS_NICE CAP_NET_ADMIN
DevicePolicy=closed
ReadWritePaths=/run {{state}} {{resctrl}} -/sys/fs/cgroup {{settings}}
RestrictAddressFamilies=AF_UNIX AF_NETLINK
{{sandbox}}"""
UNITS: Final = (
    Unit(
        NRI,
        _TEXT,
        50,
        HOST,
        resident=True,
        replaces=EXEC,
        status=read_status,
        serves="the NRI plugin",
        check="nri",
    ),
)
"""The plugin watches execs too."""

DROP_IN: Final = "/etc/containerd/conf.d/90-resctrl-hooks.toml"
RUNTIMES: Final = (
    Runtime(
        "containerd",
        (),
        (),
        (VENDOR_HOOKS, ADMIN_HOOKS),
        "",
        "",
        house="nri",
        service=NRI,
        service_drop_in=DROP_IN,
        connect="resctrl_hooks.nri.install.containerd:nri_drop_in",
        by_hand=f"without units nothing starts the NRI plugin, which serves containerd: `{LAUNCH} nri` does",
    ),
)
