"""This machine, for remarks on valid values that it cannot have."""

from dataclasses import dataclass
from functools import cached_property

from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.rdt.capabilities import Capabilities, read_abilities


@dataclass(frozen=True)
class Machine:
    """This machine.

    Args:
        resctrl_path: the mount point of resctrl.
        sys_path: the mount point of sysfs.
    """

    resctrl_path: str
    sys_path: str

    @cached_property
    def abilities(self) -> Capabilities | None:
        """The abilities of its resctrl; None without resctrl, when this is probably not the target machine."""
        try:
            return read_abilities(self.resctrl_path)
        except HookError:
            return None
