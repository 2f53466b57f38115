"""The commands of the houses that are here, for tests of what all commands have in common."""

from resctrl_hooks.core.parts import parts


def here(*calls: str) -> list[str]:
    """Return the calls of commands whose house is here."""
    names = {name for part in parts() for name in part.commands}
    return [call for call in calls if call.startswith("-") or call.split()[0] in names]
