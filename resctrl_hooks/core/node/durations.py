"""Durations in the configuration: a number of seconds, or a number with a unit such as ``500ms``, ``2s``, ``1m``."""

_UNITS = (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0))


def seconds_of(text: str) -> "float | None":
    """Return the seconds of a duration; None if ``text`` is not one."""
    unit, seconds = next(found for found in _UNITS if text.endswith(found[0]))
    number = text[: len(text) - len(unit)]
    whole, dot, fraction = number.partition(".")
    # float() accepts more: signs, exponents, `nan`, other scripts' digits.
    if not number.isascii() or not whole.isdecimal() or (dot and not fraction.isdecimal()):
        return None
    return float(number) * seconds
