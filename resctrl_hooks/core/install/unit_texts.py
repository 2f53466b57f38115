"""Texts of the systemd units, with a field for each value that depends on the host.

They use only directives of RHEL 9's systemd (252).
"""

from typing import Final

MOUNT: Final = """\
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
{options}"""

# All services have these directives.
SANDBOX: Final = """\
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateTmp=yes
ProtectClock=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectSystem=strict
RestrictNamespaces=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
"""

COMPILE: Final = """\
[Unit]
Description=resctrl-hooks: bytecode for this host's Python
Before={runtimes}
RequiresMountsFor={code}

[Service]
Type=oneshot
RemainAfterExit=yes
UMask=0022
ExecStart={compile_command}
{boot}CapabilityBoundingSet=
PrivateDevices=yes
PrivateNetwork=yes
ProtectControlGroups=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ReadWritePaths={writes}
RestrictAddressFamilies=none
RestrictRealtime=yes
{sandbox}"""

# After the removal of a MachineConfig, its units run until the reboot, without their code. At an automatic restart,
# systemd checks ExecCondition again, but not ConditionPathExists.
WITH_CODE: Final = "ExecCondition=/usr/bin/test -e {launch}"

# Reconcile reads the runtimes' folders and /proc, writes resctrl, cgroups and its state folder, all owned by root, and
# calls systemd over its socket. It keeps only the capabilities for changing other processes.
RIGHTS: Final = """\
UMask=0077
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_KILL CAP_SYS_NICE
PrivateDevices=yes
PrivateNetwork=yes
ReadWritePaths=/run {state} {resctrl} -/sys/fs/cgroup {settings}{features}
RestrictAddressFamilies=AF_UNIX
{sandbox}"""

RECONCILE: Final = f"""\
[Unit]
Description=resctrl-hooks: update monitoring groups and records to match the running containers
After={{mount}} {{runtimes}}
ConditionPathExists={{launch}}
# Wake-ups may come at any rate; each run is short.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart={{node}} reconcile --waiting-ok
# A pass limits its own processor time and ends if it makes no progress, so a slow node never fails it. No LimitCPU=,
# which a memtierd that the pass starts would inherit.
TimeoutStartSec=infinity
{RIGHTS}"""

# The process connector exists in the host's initial network namespace only. Linux before 6.6 requires CAP_NET_ADMIN;
# later kernels do not, and the watcher uses it only for a larger buffer. CAP_SYS_NICE allows the lowest realtime
# priority, without which the shortest processes end before the watcher reads them. It writes resctrl's tasks and its
# records.
EXEC: Final = f"""\
[Unit]
Description=resctrl-hooks: exec watcher
Documentation=https://docs.kernel.org/driver-api/connector.html
After={{mount}} {{compile}}

[Service]
Type=exec
{WITH_CODE}
ExecStart={{node}} watch
Restart=always
RestartSec=5
Nice=-5
UMask=0077
CapabilityBoundingSet=CAP_NET_ADMIN CAP_SYS_NICE
PrivateDevices=yes
ProtectControlGroups=yes
ReadWritePaths={{state}} {{resctrl}}
RestrictAddressFamilies=AF_UNIX AF_NETLINK
{{sandbox}}"""

TIMER: Final = """\
[Unit]
Description=resctrl-hooks: reconcile every {period} seconds

[Timer]
OnActiveSec=5
OnUnitInactiveSec={at_least}
RandomizedDelaySec={by_chance}
AccuracySec=1
"""

WAKE: Final = """\
[Unit]
Description=resctrl-hooks: reconcile when a pod waits for an RMID

[Path]
PathChanged={wake}
Unit={reconcile}
"""
