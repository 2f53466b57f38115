"""What sections with classes of workloads have in common: the class of those that ask for none."""

from typing import Literal

from .section import ClassName, Pattern, Section, wrong


class ClassDefaults(Section):
    """The class of containers that ask for none; `allow` does not concern these."""

    namespaces: dict[Pattern, ClassName] = {}
    """By namespace: `{namespace pattern: class}`; the first that fits counts, before the QoS class."""

    qos: dict[Literal["Guaranteed", "Burstable", "BestEffort"], ClassName] = {}
    """By the pod's QoS class."""

    def check_known(self, classes: list[str]) -> None:
        """Raises for a default that is no class."""
        for where, chosen in (("namespaces", self.namespaces), ("qos", self.qos)):
            for key, name in chosen.items():
                if name not in classes:
                    raise wrong(
                        f"there is no class {name!r}",
                        f"the classes are {', '.join(classes)}",
                        at=("defaults", where, key),
                    )
