"""Rules shared by sections with classes: their common keys, the default class, and the ``allow`` table."""

from collections.abc import Collection, Iterator
from typing import Any, Literal, Self

from pydantic import model_validator

from resctrl_hooks.core.node.classes.choice import NO_CLASS
from resctrl_hooks.core.node.names import matches

from .section import (
    Allow,
    ClassName,
    FailurePolicy,
    FeatureSection,
    KeyPath,
    NamespacePattern,
    Remark,
    Section,
    wrong,
)


class ClassDefaults(Section):
    """The class of containers that request none. `allow` does not apply to it."""

    namespaces: dict[NamespacePattern, ClassName] = {}
    """`{namespace pattern: class}`. The first match applies, before `qos`."""

    qos: dict[Literal["Guaranteed", "Burstable", "BestEffort"], ClassName] = {}
    """By the pod's QoS class."""

    def unknown(self, classes: Collection[str]) -> Iterator[tuple[KeyPath, str]]:
        """Yield the place and the name of each default that is not a class."""
        for where, chosen in (("namespaces", self.namespaces), ("qos", self.qos)):
            yield from ((("defaults", where, key), name) for key, name in chosen.items() if name not in classes)


class SectionOfClasses(FeatureSection):
    """A feature that applies a class to each container; off by default."""

    failure_policy: FailurePolicy | None = None
    """Failure policy of this feature. Default: the general `failurePolicy`."""

    enabled: bool = False
    """Whether the feature is enabled."""

    allow: Allow = {}
    """Classes that each namespace may request: `{namespace pattern: [class patterns]}`. `none` permits to
    have no class in spite of a default."""

    defaults: ClassDefaults = ClassDefaults()
    """The class of containers that request none."""


class SectionOfOwnClasses(SectionOfClasses):
    """A feature whose classes exist only in the configuration."""

    classes: dict[ClassName, Any] = {}
    """The classes by name."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        for at, name in self.defaults.unknown(self.classes):
            raise wrong(f"unknown class {name!r}", f"the classes are {', '.join(self.classes) or 'none'}", at=at)
        return self

    def remarks(self) -> list[Remark]:
        """Return a remark for each class that no workload can get."""
        text = "{pattern} matches no class; the classes are {known}"
        return [*super().remarks(), *allowed_in_vain(self.allow, self.classes, text, [NO_CLASS])]


def allowed_in_vain(allow: Allow, known: Collection[str], text: str, others: Collection[str] = ()) -> list[Remark]:
    """Return a remark for each pattern of an ``allow`` table that matches nothing.

    Args:
        allow: the table; remarks are relative to its section.
        known: the existing names.
        text: the remark, with ``{pattern}`` and ``{known}`` in it.
        others: further names that match.
    """
    return [
        Remark(("allow", namespace, place), text.format(pattern=repr(pattern), known=", ".join(known)))
        for namespace, patterns in allow.items()
        for place, pattern in enumerate(patterns)
        if pattern.strip("*") and not any(matches(pattern, name) for name in (*known, *others))
    ]
