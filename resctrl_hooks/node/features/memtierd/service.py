"""memtierd as a transient service of systemd's, which ends with the unit that its container runs in."""

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
_NOT_LOADED = 5  # systemctl's answer for a unit that it doesn't have
_LAST_LINES = "200"  # more than the stack frames of a Go program that panics
_SERVICE = (
    "Type=exec",  # so that systemd-run reports a program that can't be executed
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
    # Of what a container's id may be made of, only the plus sign may not be in a unit's name (systemd.unit(5)).
    name = _PREFIX + container.replace("+", "\\x2b") + _SUFFIX
    if len(name) > _LONGEST_UNIT:
        raise UnitError(f"the id {container} is too long for a unit's name", hint="set memtierd.supervisor: process")
    return name


def start_service(
    container: str, leaf: "Leaf", command: "list[str]", memory_max: str, seconds: float, *, bound: bool
) -> None:
    """Start a container's memtierd as a transient service that ends with the unit that the container runs in.

    ``bound`` is false where that unit is not the container's own and may end before it.

    Raises:
        UnitError: systemd refuses, or the program can't be executed.
        ProgramError: systemd-run is missing or does not answer.
    """
    unit = unit_name(container)
    properties = [*_SERVICE, f"MemoryMax={memory_max}"]
    if bound and leaf.unit:
        properties.append(f"BindsTo={leaf.unit}")
        if leaf.own_scope:
            # After= orders ours to stop first. Not with a service, which is still starting while its container is:
            # our start would wait for the service's, and that one for us.
            properties.append(f"After={leaf.unit}")
    arguments = [find_program("systemd-run"), "--quiet", "--collect", "--no-ask-password", f"--slice={_SLICE}"]
    arguments += [f"--unit={unit}", f"--description=memtierd of container {container}"]
    arguments += [f"--property={value}" for value in properties]
    code, output = run([*arguments, "--", *command], seconds)
    if code:
        raise UnitError(f"systemd-run --unit={unit}: {words(code, output)}")


def stop_service(container: str, seconds: float) -> bool:
    """Stop a container's memtierd, if there is one, and say whether there was.

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
    """The processes of a container's memtierd service, none if it doesn't run. ``cgroups`` is where those are."""
    return processes(f"{cgroups}/{_SLICE}/{unit_name(container)}")


def last_lines(container: str, seconds: float) -> str:
    """What a container's memtierd said last, from the journal; empty where that can't be had."""
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
