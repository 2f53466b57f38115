"""memtierd as a transient systemd service, which ends with its container's unit."""

from ...errors import HookError
from ...host.cgroup import processes
from ...host.programs import find_program, run
from ...host.systemd import UnitError, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...host.cgroup import Leaf

_PREFIX = "resctrl-hooks-memtierd-"
_SUFFIX = ".service"
_SLICE = "system.slice"
_LONGEST_UNIT = 255
_NOT_LOADED = 5  # systemctl's answer for an unknown unit
_LAST_LINES = "200"  # more than the stack frames of a Go panic
_SERVICE = (
    "Type=exec",  # makes systemd-run report a program that cannot be executed
    "Restart=on-failure",
    "RestartSec=5",
    "StartLimitIntervalSec=600",
    "StartLimitBurst=5",
    "TimeoutStopSec=1",
    "KillMode=control-group",  # commands of memtierd's routines outlive its own pid
    "TasksMax=256",
    "CPUWeight=20",
    "WorkingDirectory=/",
    "UMask=0077",
    "SyslogIdentifier=memtierd",
    "StandardOutput=journal",
    "StandardError=journal",
)


def unit_name(container: str) -> str:
    """Return the name of a container's memtierd service.

    Raises:
        UnitError: the container's id is too long for one.
    """
    # Of the characters in container ids, only the plus sign is invalid in a unit's name (systemd.unit(5)).
    name = _PREFIX + container.replace("+", "\\x2b") + _SUFFIX
    if len(name) > _LONGEST_UNIT:
        raise UnitError(f"the id {container} is too long for a unit name", hint="set memtierd.supervisor: process")
    return name


def start_service(
    container: str, leaf: "Leaf", command: "list[str]", memory_max: str, seconds: float, *, bound: bool
) -> None:
    """Start a container's memtierd as a transient service that ends with the container's unit.

    ``bound`` is false if that unit is not the container's own and may end before it.

    Raises:
        UnitError: systemd refuses, or the program cannot be executed.
        ProgramError: systemd-run is missing or does not answer.
    """
    unit = unit_name(container)
    properties = [*_SERVICE, f"MemoryMax={memory_max}"]
    if bound and leaf.unit:
        properties.append(f"BindsTo={leaf.unit}")
        if leaf.own_scope:
            # After= stops this service first. It is not used with a service, which is still starting with its
            # container: the two starts would wait for each other.
            properties.append(f"After={leaf.unit}")
    arguments = [find_program("systemd-run"), "--quiet", "--collect", "--no-ask-password", f"--slice={_SLICE}"]
    arguments += [f"--unit={unit}", f"--description=memtierd of container {container}"]
    arguments += [f"--property={value}" for value in properties]
    code, output = run([*arguments, "--", *command], seconds)
    if code:
        raise UnitError(f"systemd-run --unit={unit}: {words(code, output)}")


def stop_service(container: str, seconds: float) -> bool:
    """Stop a container's memtierd, and return whether it existed.

    Raises:
        UnitError: systemd refuses.
        ProgramError: systemctl is missing or does not answer.
    """
    unit = unit_name(container)
    code, output = run([find_program("systemctl"), "stop", "--", unit], seconds)
    if code not in (0, _NOT_LOADED):
        raise UnitError(f"systemctl stop {unit}: {words(code, output)}")
    return code == 0


def service_waits(container: str, seconds: float) -> bool:
    """Return whether a container's memtierd is between two starts of systemd's own (``Restart=on-failure``).

    Raises:
        ProgramError: systemctl is missing or does not answer.
    """
    arguments = ["show", "--property=ActiveState", "--value", "--", unit_name(container)]
    code, output = run([find_program("systemctl"), *arguments], seconds)
    return code == 0 and output.strip() in ("activating", "active", "reloading")


def service_processes(cgroups: str, container: str) -> "list[int]":
    """Return the processes of a container's memtierd service below ``cgroups``; empty if it does not run."""
    return processes(f"{cgroups}/{_SLICE}/{unit_name(container)}")


def last_lines(container: str, seconds: float) -> str:
    """Return the last output of a container's memtierd from the journal; empty if unavailable."""
    try:
        journalctl = find_program("journalctl")
        run([journalctl, "--sync"], seconds)
        arguments = [
            "--quiet",
            "--no-pager",
            "--output=cat",
            f"--lines={_LAST_LINES}",
            f"--unit={unit_name(container)}",
        ]
        return run([journalctl, *arguments, "--identifier=memtierd"], seconds)[1]
    except HookError:
        return ""
