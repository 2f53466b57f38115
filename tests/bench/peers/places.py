"""The places of containers after an event, the same for both sides."""

from dataclasses import dataclass


@dataclass
class Place:
    """A container's cpuset, its exclusive CPUs, and its memory nodes, as sets."""

    cpus: int
    owned: int
    mems: int


@dataclass
class Places:
    """Why a container was refused, empty if it was not, and the places of all containers by id."""

    refused: str
    places: dict[str, Place]
