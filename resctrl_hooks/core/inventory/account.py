"""The owner of each RMID and CLOSID of this node, decided from the groups that `owners` has observed.

The sum over all owners is the kernel's number. RMIDs that no group uses are free, or in limbo while the kernel refuses
them (kernel, Documentation/filesystems/resctrl.rst, "max_threshold_occupancy").
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import Field

from resctrl_hooks.core.node.names import name_text, valid_class

from .base import ClassName, KernelName, Record, class_text, group_name

Kind = Literal["pods", "classes", "runtimes", "foreign", "limbo", "free", "no-class"]
RMID_KINDS: Final[tuple[Kind, ...]] = ("pods", "classes", "runtimes", "foreign", "limbo", "free")
"""Owners of RMIDs: groups of pods, RDT classes (one each), groups and classes that a container runtime created for one
container, groups of other programs, freed RMIDs that the kernel does not assign yet, and free ones."""
CLOSID_KINDS: Final[tuple[Kind, ...]] = ("classes", "runtimes", "free")
_ONE: Final = {"pods": "pod", "classes": "class", "runtimes": "runtime"}
NO_CLASS: Final = "no-class"
"""RMIDs of classes that do not exist, where each class has its own (Arm's MPAM)."""


class Facts(NamedTuple):
    """The node as observed.

    Attributes:
        rmids: ``num_rmids`` by resource; the smallest counts.
        closids: the smallest ``num_closids``; 0 if nothing can be allocated.
        of_each_class: RMIDs of each class where each class has its own; 0 elsewhere.
        groups: names of the mon_groups by class; the root class is an empty string.
        pods: by name of a group, the pod that it belongs to.
        containers: by id, the containers for which a runtime may have created groups or classes.
        refused: whether the kernel refuses a pod the RMIDs that no group uses.
    """

    rmids: Mapping[str, int]
    closids: int
    of_each_class: int
    groups: Mapping[str, Sequence[str]]
    pods: Mapping[str, str]
    containers: Mapping[str, str]
    refused: bool = False


class Owner(Record):
    """The owner of an RMID, and for a class also of a CLOSID."""

    owner: Kind
    name: str = Field(description="Its pod, container or class; a foreign group's path below resctrl's root.")
    rdt_class: ClassName
    group: KernelName = Field(description="Its mon_group; empty for a class itself.")


class Account(Record):
    """The owners of all RMIDs and CLOSIDs of the node."""

    rmids: dict[Kind, int] = Field(description="RMIDs by owner; the sum is the kernel's number.")
    closids: dict[Kind, int] = Field(description="CLOSIDs by owner; empty if nothing can be allocated.")
    limits: dict[str, int] = Field(description="`num_rmids` by resource; the smallest limits the groups.")
    free_by_class: dict[str, int] = Field(description="Unused RMIDs of each class, where each class has its own.")
    owners: list[Owner] = Field(description="Each group and class.")

    def of(self, *kinds: Kind) -> list[Owner]:
        """Return the owners of some kinds."""
        return [one for one in self.owners if one.owner in kinds]

    @property
    def limit(self) -> str:
        """The resource with fewer RMIDs than another one, and its number; empty if all have the same number."""
        if len({*self.limits.values()}) < 2:  # noqa: PLR2004  # the two to compare
            return ""
        name = min(self.limits, key=lambda name: self.limits[name])
        return f"{name} limits the groups to {self.limits[name]} RMIDs"

    def as_line(self) -> str:
        """Return all owners in one line."""
        parts = [
            f"{what} by owner: {_counts(of)}" for what, of in (("RMIDs", self.rmids), ("CLOSIDs", self.closids)) if of
        ]
        return "; ".join([*parts, self.limit] if self.limit else parts)


def account_of(facts: Facts) -> Account:
    """Return the owner of each RMID and CLOSID."""
    owners = [_owner(facts, rdt_class, group) for rdt_class, groups in facts.groups.items() for group in ("", *groups)]
    rmids = Counter(one.owner for one in owners)
    closids = Counter(one.owner for one in owners if not one.group)
    total = min(facts.rmids.values(), default=0)
    each = facts.of_each_class
    by_class = (
        {class_text(name): max(each - 1 - len(groups), 0) for name, groups in facts.groups.items()} if each else {}
    )
    usable = min(each * len(facts.groups), total) if each else total
    rmids["limbo" if facts.refused else "free"] = max(usable - rmids.total(), 0)
    closids["free"] = max(facts.closids - closids.total(), 0)
    found = {kind: rmids[kind] for kind in RMID_KINDS} if total else {}
    if total > usable:
        found[NO_CLASS] = total - usable
    return Account(
        rmids=found,
        closids={kind: closids[kind] for kind in CLOSID_KINDS} if facts.closids else {},
        limits=dict(facts.rmids),
        free_by_class=by_class,
        owners=owners,
    )


def _owner(facts: Facts, rdt_class: str, group: str) -> Owner:
    # A runtime names a group after its container, and a class too if the container names none: runtime-spec,
    # config-linux.md, "intelRdt".
    kind: Kind
    if not group:
        container = facts.containers.get(rdt_class)
        kind, name = ("runtimes", container) if container is not None else ("classes", class_text(rdt_class))
    elif group in facts.pods and (not rdt_class or valid_class(rdt_class)):
        kind, name = "pods", facts.pods[group]
    elif group in facts.containers:
        kind, name = "runtimes", facts.containers[group]
    else:
        kind, name = "foreign", group_name(rdt_class, name_text(group))
    return Owner(owner=kind, name=name, rdt_class=rdt_class, group=group)


def _counts(counts: Mapping[Kind, int]) -> str:
    return ", ".join(
        f"{number} {_ONE.get(kind, kind) if number == 1 else kind}"
        for kind, number in counts.items()
        if number or kind == "free"
    )
