"""Rules shared by sections with classes: the default class and the ``allow`` table."""

from collections.abc import Collection
from typing import Literal

from resctrl_hooks.node.names import matches

from .section import Allow, ClassName, NamespacePattern, Remark, Section, wrong


class ClassDefaults(Section):
    """The class of containers that request none. `allow` does not apply to it."""

    namespaces: dict[NamespacePattern, ClassName] = {}
    """By namespace: `{namespace pattern: class}`. The first match applies, before the QoS class."""

    qos: dict[Literal["Guaranteed", "Burstable", "BestEffort"], ClassName] = {}
    """By the pod's QoS class."""

    def check_known(self, classes: list[str]) -> None:
        """Raise an error for a default that is not a class."""
        for where, chosen in (("namespaces", self.namespaces), ("qos", self.qos)):
            for key, name in chosen.items():
                if name not in classes:
                    raise wrong(
                        f"unknown class {name!r}",
                        f"the classes are {', '.join(classes)}",
                        at=("defaults", where, key),
                    )


def allowed_in_vain(allow: Allow, known: Collection[str], text: str) -> list[Remark]:
    """Return a remark for each pattern of an ``allow`` table that matches nothing.

    Args:
        allow: the table; remarks are relative to its section.
        known: the existing names.
        text: the remark, with ``{pattern}`` and ``{known}`` in it.
    """
    return [
        Remark(("allow", namespace, place), text.format(pattern=repr(pattern), known=", ".join(known)))
        for namespace, patterns in allow.items()
        for place, pattern in enumerate(patterns)
        if pattern.strip("*") and not any(matches(pattern, name) for name in known)
    ]
