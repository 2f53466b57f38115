"""Texts of the systemd units: resctrl's mount, bytecode at boot, reconcile with timer and path unit, the watcher.

They use only directives of RHEL 9's systemd (252).
"""

from typing import Final

from resctrl_hooks.node.names import RESCTRL_ROOT, STATE_DIR

from .guard import node_command
from .paths import BOOT_CODE, LAUNCH, PYTHON

MOUNT: Final = "sys-fs-resctrl.mount"
COMPILE: Final = "resctrl-hooks-compile.service"
RECONCILE: Final = "resctrl-hooks-reconcile.service"
NRI: Final = "resctrl-hooks-nri.service"
EXEC: Final = "resctrl-hooks-exec.service"
GUARD: Final = "resctrl-hooks-guard.service"
TIMER: Final = "resctrl-hooks-reconcile.timer"
WAKE: Final = "resctrl-hooks-reconcile.path"

ENABLED: Final = (MOUNT, COMPILE, TIMER, WAKE, NRI, EXEC, GUARD)
"""Units to enable and start; timer and path units start the reconcile service."""
STARTED_BY: Final = {
    MOUNT: ("local-fs.target.wants",),
    COMPILE: ("multi-user.target.wants",),
    TIMER: ("timers.target.wants",),
    WAKE: ("paths.target.wants",),
    NRI: ("multi-user.target.wants",),
    EXEC: ("multi-user.target.wants",),
    GUARD: ("multi-user.target.wants",),
}
"""Folder of each unit's enabling link, below the units' folder: what `systemctl enable` does, for images."""

WITHOUT_SYSTEMD: Final = (
    "mount resctrl at boot, and keep `resctrl-hook reconcile --watch 30` running, "
    "or have cron run it each minute: * * * * * root {command}"
)
"""Alternative without systemd, for /etc/cron.d."""

_RUNTIMES: Final = "crio.service containerd.service podman.service podman-restart.service kubelet.service"

_MOUNT: Final = """\
[Unit]
Description=resctrl: cache and memory bandwidth monitoring
Documentation=https://docs.kernel.org/filesystems/resctrl.html
# The directory exists if kernel and processor support resctrl.
ConditionPathExists=/sys/fs/resctrl
Before={runtimes}

[Mount]
What=resctrl
Where=/sys/fs/resctrl
Type=resctrl
{options}
[Install]
WantedBy=local-fs.target
"""

_COMPILE: Final = """\
[Unit]
Description=resctrl-hooks: bytecode for this host's Python
Before={runtimes}
RequiresMountsFor={code}

[Service]
Type=oneshot
RemainAfterExit=yes
UMask=0022
ExecStart={command}
{boot}CapabilityBoundingSet=
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateNetwork=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
ReadWritePaths={writes}
RestrictAddressFamilies=none
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""

# Reconcile reads the runtimes' folders and /proc, writes resctrl, cgroups and its state folder, all owned by root, and
# calls systemd over its socket. It keeps only the capabilities for changing other processes.
_HARDENING: Final = """\
UMask=0077
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_KILL CAP_SYS_NICE{capabilities}
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
{devices}
PrivateTmp=yes
ProtectClock=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectSystem=strict
ReadWritePaths=/run {state} {resctrl} -/sys/fs/cgroup {settings}
{network}
RestrictNamespaces=yes
RestrictRealtime=no
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""

_RECONCILE: Final = """\
[Unit]
Description=resctrl-hooks: update monitoring groups and records to match the running containers
After={mount} {compile} {runtimes}
# Wake-ups may come at any rate; each run is short.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart={command}
TimeoutStartSec=120
Nice=5
{hardening}"""

# The plugin does what hooks do on behalf of a runtime, so it has the same access as reconcile. Programs that it starts
# for a container outlive it; an event in progress is completed at shutdown.
_NRI: Final = """\
[Unit]
Description=resctrl-hooks: NRI plugin of containerd or CRI-O
Documentation=https://github.com/containerd/nri
After={mount} {compile} {runtimes}
# The runtime may start later or restart; the plugin waits for it.
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={command}
Restart=always
RestartSec=1
WatchdogSec=60
KillMode=process
OOMScoreAdjust=-900
{hardening}
[Install]
WantedBy=multi-user.target
"""

# The process connector exists in the host's initial network namespace only. Linux before 6.6 requires CAP_NET_ADMIN;
# later kernels do not, and the watcher uses it only for a larger buffer. CAP_SYS_NICE allows the lowest realtime
# priority, without which the shortest processes end before the watcher reads them. It writes resctrl's tasks and its
# records.
_EXEC: Final = """\
[Unit]
Description=resctrl-hooks: exec watcher
Documentation=https://docs.kernel.org/driver-api/connector.html
After={mount} {compile}

[Service]
Type=exec
ExecStart={command}
Restart=always
RestartSec=5
Nice=-5
UMask=0077
CapabilityBoundingSet=CAP_NET_ADMIN CAP_SYS_NICE
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectSystem=strict
ReadWritePaths={state} {resctrl}
RestrictAddressFamilies=AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""

# The guard writes the schemata of classes and its own files; ExecStopPost restores its changes after any exit.
_GUARD: Final = """\
[Unit]
Description=resctrl-hooks: bandwidth guard (rdt.guard; experimental)
After={mount} {compile}
Requires={mount}

[Service]
Type=notify
ExecStart={command}
ExecStopPost={restore}
Restart=on-failure
RestartSec=5
WatchdogSec=30
{hardening}
[Install]
WantedBy=multi-user.target
"""

_TIMER: Final = """\
[Unit]
Description=resctrl-hooks: reconcile every {period} seconds

[Timer]
OnActiveSec=5
OnUnitInactiveSec={period}
AccuracySec=1

[Install]
WantedBy=timers.target
"""

_WAKE: Final = """\
[Unit]
Description=resctrl-hooks: reconcile when a pod waits for an RMID

[Path]
PathChanged={state}/wake
Unit={reconcile}

[Install]
WantedBy=paths.target
"""


def units(
    config: str,
    *,
    state: str = STATE_DIR,
    resctrl: str = RESCTRL_ROOT,
    options: str = "",
    period: int = 30,
    launch: str = LAUNCH,
    python: str = PYTHON,
    boot_code: str = "",
) -> dict[str, bytes]:
    """Return the units' texts by name.

    Args:
        config: The configuration's path, for ``--config``.
        state: The ledger's folder (``stateDir``).
        resctrl: resctrl's mount point; the mount unit exists for the kernel's default one only.
        options: Mount options of resctrl (``cdp``, ``mba_MBps``, …).
        period: Seconds between two reconciles.
        launch: The node half's script.
        python: The interpreter.
        boot_code: The folder for bytecode made at boot; empty if bytecode lies with the modules.
    """
    code = launch.rpartition("/")[0]
    runtime_folder = boot_code.removeprefix("/run/").partition("/")[0]
    compile_ = node_command(config, "compile", *([boot_code] if boot_code else []), launch=launch, python=python)
    places = {"state": _path(state), "resctrl": _path(resctrl), "settings": _path(config.rpartition("/")[0])}
    local = _HARDENING.format(
        devices="PrivateDevices=yes",
        network="PrivateNetwork=yes\nRestrictAddressFamilies=AF_UNIX",
        capabilities="",
        **places,
    )
    texts = {
        MOUNT: _MOUNT.format(runtimes=_RUNTIMES, options=f"Options={options}\n" if options else ""),
        COMPILE: _COMPILE.format(
            runtimes=_RUNTIMES,
            code=code,
            command=_line(compile_),
            boot=f"RuntimeDirectory={runtime_folder}\nRuntimeDirectoryMode=0755\n" if boot_code else "",
            writes=f"-{BOOT_CODE}" if boot_code else f"-{code}",
        ),
        RECONCILE: _RECONCILE.format(
            mount=MOUNT,
            compile=COMPILE,
            runtimes=_RUNTIMES,
            command=_line(node_command(config, "reconcile", "--waiting-ok", launch=launch, python=python)),
            hardening=local,
        ),
        NRI: _NRI.format(
            mount=MOUNT,
            compile=COMPILE,
            runtimes=_RUNTIMES,
            command=_line(node_command(config, "nri", launch=launch, python=python)),
            # Block I/O classes name devices, so the unit can see them; it opens none.
            hardening=_HARDENING.format(
                devices="DevicePolicy=closed",
                # As in the exec watcher's own unit.
                network="RestrictAddressFamilies=AF_UNIX AF_NETLINK",
                capabilities=" CAP_NET_ADMIN",
                **places,
            ),
        ),
        EXEC: _EXEC.format(
            mount=MOUNT,
            compile=COMPILE,
            command=_line(node_command(config, "watch", launch=launch, python=python)),
            state=places["state"],
            resctrl=places["resctrl"],
        ),
        GUARD: _GUARD.format(
            mount=MOUNT,
            compile=COMPILE,
            command=_line(node_command(config, "guard", "run", launch=launch, python=python)),
            restore=_line(node_command(config, "guard", "restore", launch=launch, python=python)),
            hardening=local,
        ),
        TIMER: _TIMER.format(period=period),
        WAKE: _WAKE.format(state=state.replace("%", "%%"), reconcile=RECONCILE),
    }
    return {name: text.encode() for name, text in texts.items()}


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
