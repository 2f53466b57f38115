"""Numbers from other programs, nodes and files: the one parser that knows with which of them readers can calculate."""

LEAST, MOST = 1e-30, 1e24
"""Limits of an absolute value except 0: rates and sums stay finite. Counters of the kernel have 64 bits."""


def number(value: object, *, signed: bool = False) -> float | None:
    """Return a value as a number, in the unit that its source documents; None if it is unknown.

    Unknown are NaN, infinities, values beyond `LEAST` and `MOST`, other types than numbers and decimal text, and
    without ``signed`` negative values: an amount, a rate or a ratio has none.
    """
    if isinstance(value, str):
        # float() also accepts digits of other scripts and `1_000`.
        if not value.isascii() or "_" in value:
            return None
        try:
            found = float(value)
        except ValueError:
            return None
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if not -MOST <= value <= MOST:
            return None  # an integer may be too large for float()
        found = float(value)
    else:
        return None
    if found == 0:
        return 0.0
    if found < 0 and not signed:
        return None
    return found if LEAST <= abs(found) <= MOST else None
