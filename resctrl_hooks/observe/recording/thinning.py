"""Samples that a chart draws: so few that the page stays small, and among them every extreme."""

from collections.abc import Sequence
from math import isnan

from .tracks import Line, known


def places_of(lines: Sequence[Line], most: int) -> list[int]:
    """Return the places of about ``most`` samples, in order; all if there are not more.

    The samples are divided into equal parts. Of each part, those of the largest and the smallest value of each line are
    in the result, with the first and the last of all. All lines are drawn at the same samples, so their sums are right.
    """
    number = len(lines[0]) if lines else 0
    if number <= most:
        return [*range(number)]
    parts = max(most // (2 * len(lines)), 1)
    chosen = {0, number - 1}
    for part in range(parts):
        start, end = part * number // parts, (part + 1) * number // parts
        for line in lines:
            values = [(value, place) for place, value in enumerate(line[start:end], start) if not isnan(value)]
            if values:
                chosen.update((min(values)[1], max(values)[1]))
    return sorted(chosen)


def largest_of(line: Line, parts: int) -> list[float | None]:
    """Return the largest value in each of so many equal parts of a line; None in a part without one."""
    number = len(line)
    found: list[float | None] = []
    for part in range(parts):
        values = known(line[part * number // parts : (part + 1) * number // parts])
        found.append(max(values, default=None))
    return found
