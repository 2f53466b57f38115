"""A limit as it is written in options of `limit`: texts to values."""

import re
from collections.abc import Callable
from typing import Any, Final

from .request import Request, bytes_of

_COUNT = re.compile(r"[0-9]{1,9}")
_MASK = re.compile(r"(?:[0-9]{1,3}-)?[1-9][0-9]{0,2}%|(?:0[xX])?[0-9a-fA-F]{1,16}")


def per_cent(text: str) -> float:
    """Return the number of ``50%``; raises ValueError if it is none."""
    number = text.removesuffix("%")
    if number == text or not _COUNT.fullmatch(number) or not int(number):
        raise ValueError(f"{text!r} is not a number of per cent such as 50%.")
    return float(number)


def mask(text: str) -> str:
    """Return a part of the cache; raises ValueError if it is none."""
    if not _MASK.fullmatch(text):
        raise ValueError(f"{text!r} is not a part of the cache such as 20% or 00f.")
    return text


def of_bytes(text: str) -> tuple[str, int]:
    """Return the disk and the bytes of ``[DISK=]BYTES``; raises ValueError if they are wrong."""
    return _rate(text, bytes_of, "a number of bytes such as 20M")


def of_operations(text: str) -> tuple[str, int]:
    """Return the disk and the operations of ``[DISK=]NUMBER``; raises ValueError if they are wrong."""
    return _rate(
        text, lambda one: int(one) or None if _COUNT.fullmatch(one) else None, "a number of operations such as 500"
    )


def _rate(text: str, number: Callable[[str], int | None], example: str) -> tuple[str, int]:
    disk, _, count = text.rpartition("=")
    rate = number(count)
    if rate is None:
        raise ValueError(f"{text!r} is not {example}, or DISK= and that.")
    return disk, rate


_READERS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "--class": lambda text: {"rdt_class": text},
    "--mb": lambda text: {"mb": text},
    "--l3": lambda text: {"l3": mask(text)},
    "--cpu": lambda text: {"cpu": per_cent(text)},
    "--cpu-weight": lambda text: {"cpu_weight": int(text)},
    "--io": lambda text: {"io": (of_bytes(text),)},
    "--iops": lambda text: {"iops": (of_operations(text),)},
    "--io-weight": lambda text: {"io_weight": int(text)},
}


def request_of(option: str) -> Request:
    """Return what one option with its value requests, such as ``--cpu 50%``.

    Raises:
        KeyError, ValueError: it is none of `limit`.
    """
    name, _, value = option.partition(" ")
    return Request(**_READERS[name](value))
