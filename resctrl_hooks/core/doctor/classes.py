"""Check of the declared RDT classes: a container whose class is missing runs without it."""

from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.node.errors import NotMountedError
from resctrl_hooks.core.rdt.classes import Classes

from .finding import Check, Finding, ok, some, warning
from .host import Host

_AS_DECLARED: Final = ("as declared", "not declared")
_REMEDY: Final = "run `resctrl-hook rdt apply`; `resctrl-hook rdt show` prints the differences"


def classes(host: Host) -> Iterator[Finding]:
    """Check that the declared classes exist and have their values."""
    if not host.settings.rdt.get("classes"):
        return
    try:
        reports = Classes.of_node(host.context).show()
    except NotMountedError:
        return  # the check of the mount says so
    wrong = [f"{one.name} ({one.state})" for one in reports if one.state not in _AS_DECLARED]
    if wrong:
        yield warning(f"declared RDT classes: {some(wrong)}", _REMEDY)
    else:
        yield ok(f"the declared RDT classes are as declared: {some(list(host.settings.rdt['classes']))}")


CHECKS: Final = {"classes": Check(classes)}
