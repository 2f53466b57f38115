"""Memory bandwidth: which resource's domains count it. The decision is made here only.

Kernels count it at the L3 caches, or where the memory is (`layouts`). If several resources count it, only one is used,
so that no byte counts twice.
"""

from .layouts import AT_MEMORY, L3, domain_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from .counters import Counter, Domain

    class Placed(Protocol):
        """A slot, or a reading."""

        @property
        def domain(self) -> Domain:
            """Its domain."""

        @property
        def counter(self) -> Counter:
            """Its counter."""


TOTAL, LOCAL = "mbm_total_bytes", "mbm_local_bytes"
EVENTS = (TOTAL, LOCAL)
_ORDER = (*AT_MEMORY, L3)


def order_of(resource: str) -> "tuple[int, str]":
    """Return the place of a resource among those that count bandwidth: the memory, the L3 caches, then unknown ones."""
    return (_ORDER.index(resource) if resource in _ORDER else len(_ORDER), resource)


def resource_of(found: "Iterable[Placed]") -> str:
    """Return the resource that counts memory bandwidth, from the node's counters; `L3` if none does."""
    resources = {one.domain.resource for one in found if one.counter.name == TOTAL}
    return min(resources, key=order_of, default=L3)


def is_at_memory(resource: str) -> bool:
    """Return whether a domain of this resource is a memory, so that all of its traffic is to and from it."""
    return resource in AT_MEMORY


class Bandwidth:
    """The domains of a node that count memory bandwidth.

    Args:
        resource: their resource.
        numbers: their ids, which have gaps on some machines.
    """

    __slots__ = ("numbers", "resource")

    def __init__(self, resource: str, numbers: "Iterable[int]") -> None:
        self.resource = resource
        self.numbers = sorted(numbers)

    @property
    def at_memory(self) -> bool:
        """Whether a domain is a memory."""
        return is_at_memory(self.resource)

    def folder(self, number: int) -> str:
        """Return the folder of a domain in ``mon_data``."""
        return domain_folder(self.resource, number)


def bandwidth_of(found: "Iterable[Placed]") -> Bandwidth:
    """Return the domains that count memory bandwidth, from the node's counters."""
    every = [*found]
    resource = resource_of(every)
    return Bandwidth(resource, {one.domain.id for one in every if is_bandwidth(one, resource)})


def is_bandwidth(one: "Placed", resource: str, counter: str = TOTAL) -> bool:
    """Return whether a slot or reading is the bandwidth of a whole domain of the resource that counts it."""
    return one.counter.name == counter and one.domain.resource == resource and one.domain.node is None
