"""What a scope's cgroup is given, told to systemd too, which would undo it at the next ``systemctl daemon-reload``."""

from ..errors import DeadlineError, HookError
from ..host import systemd
from ..log import WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


def tell(unit: str, properties: "dict[str, str]", context: "Context", **fields: "str | int") -> bool:
    """Tells systemd of what a unit's cgroup is given, so that a daemon-reload keeps it, and says whether it manages it.

    If it refuses, the values hold until a daemon-reload, which is worth a warning with these fields and no more.
    """
    if not systemd.available(context.settings.cgroup_path):
        return False
    try:
        systemd.set_properties(unit, properties, systemd.patience(context.settings.deadline))
    except DeadlineError:
        raise
    except HookError as error:
        what = f"{error}; the values hold only until the next systemctl daemon-reload"
        context.log(WARNING, what, reason=error.reason, **fields)
    return True
