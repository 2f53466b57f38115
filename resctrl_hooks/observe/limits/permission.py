"""Whether the operator permits limits of a pod."""

import os
from collections.abc import Sequence

from resctrl_hooks.core.node.names import matches
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.observe.node.guard.section import section as guard_section
from resctrl_hooks.observe.node.slowdown.section import section


def refusal(settings: Settings, name: str, classes: Sequence[str]) -> str:
    """Return why a pod with this name, in these RDT classes, may not be limited; empty: it may."""
    if not any(matches(pattern, name) for pattern in section(settings)["limit"]):
        return f"`slowdown.limit` does not have {name}"
    protected = guard_section(settings)["protect"]
    found = [one for one in (of or "/" for of in classes) if one in protected]
    return f"{name} is in the protected class {found[0]} (`rdt.guard.protect`)" if found else ""


def is_owner(settings: Settings) -> bool:
    """Return whether this user may change values of pods: root, or on a simulated node the owner of its records."""
    try:
        owner = os.stat(settings.state_dir).st_uid
    except OSError:
        owner = 0
    return os.geteuid() in (0, owner)
