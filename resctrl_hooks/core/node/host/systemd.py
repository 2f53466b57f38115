"""Properties of systemd units, set through systemd's programs.

Used only if systemd runs this machine (sd_booted(3)) and the cgroups are the machine's own.
"""

from ..errors import HookError
from ..names import CGROUP_ROOT
from .files import is_folder
from .programs import find_program, run

_BOOTED = "/run/systemd/system"


class UnitError(HookError):
    """systemd refuses a unit or a property."""

    reason = "systemd"


def available(cgroup_root: str) -> bool:
    """Return whether systemd manages this machine and the cgroups below a folder, which a simulated host's are not."""
    return cgroup_root == CGROUP_ROOT and is_folder(_BOOTED)


def patience(deadline: float) -> float:
    """Return the timeout of one systemd program in seconds: two of them fit into a hook's deadline."""
    return deadline / 2


def set_properties(unit: str, properties: "dict[str, str]", seconds: float) -> None:
    """Set properties of a running unit until it ends, so that a daemon-reload keeps them.

    Raises:
        UnitError: systemd refuses.
        ProgramError: systemctl is missing or does not answer.
    """
    for name, value in properties.items():  # names may come from a record
        if not (name.isascii() and name.isalnum()) or not value.isprintable():
            raise UnitError(f"invalid property of {unit}: {name[:80]!r}")
    values = [f"{name}={value}" for name, value in properties.items()]
    code, output = run([find_program("systemctl"), "set-property", "--runtime", "--", unit, *values], seconds)
    if code:
        raise UnitError(f"systemctl set-property {unit} {' '.join(values)}: {words(code, output)}")


def words(code: int, output: str) -> str:
    """Return the last output of a systemd program in one line."""
    return " / ".join(output.splitlines()[-3:]) or f"exit code {code}"
