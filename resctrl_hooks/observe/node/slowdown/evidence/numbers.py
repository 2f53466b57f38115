"""Reads the kernel's files of named numbers, such as ``cpu.stat``, ``memory.events``, pressure and ``vmstat``."""

from .....core.node.host.files import kernel_text


def numbers(path: str) -> "dict[str, int]":
    """Return the numbers of a file with a word and a number in each line, of pressures the ``total`` at its end."""
    found = {}
    for line in kernel_text(path).splitlines():
        word, _, rest = line.partition(" ")
        number = rest.rpartition("total=")[2]
        if number.isdigit():
            found[word] = int(number)
    return found
