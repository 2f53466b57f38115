"""The parts of the shapes of records (`record_shapes`) and of all other state files (`file_shapes`).

A file that does not fit is damaged, and never half believed. A shape is a function from a JSON value to whether it
fits. Fields that a shape does not name may have any value: a newer version adds some. `records` has the same fields as
types; `tests/core/node/test_shapes.py` compares the two.
"""

from .host.files import parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    Shape = Callable[[Any], bool]
    _Plan = tuple[Collection[str], Iterable[str], Iterable[tuple[str, Shape]]]

_MOST_BITS = 1 << 16
_ROOTS = ("", "/")
_NO_FOLDERS = ("", ".", "..")
_MOST_PLANS = 64
_FEW = 3
_DIGITS = 10  # of a domain's number
LARGEST = 1 << 62
"""The bound of any number: of a kernel's counter, and of nanoseconds."""
_LARGEST_FLOAT = float(LARGEST)


def parse(data: bytes, shape: "Shape") -> "Any":
    """Return the JSON value in a state file.

    Raises:
        ValueError: it is not JSON, or does not fit.
    """
    value = parse_json(data, trusted=True)
    if not shape(value):
        raise ValueError("not of the file's shape")
    return value


def text(value: "Any") -> bool:
    """Return whether a value is a string that can be passed to the kernel."""
    if type(value) is not str or "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def name(value: "Any") -> bool:
    """Return whether a value is a string; characters that cannot be shown are replaced by the reader."""
    return type(value) is str


def path(value: "Any") -> bool:
    """Return whether a value is a normalized absolute path, or empty."""
    return text(value) and (not value or (value[0] == "/" and "/../" not in f"{value}/"))


def named_texts(value: "Any") -> bool:
    """Return whether a value is an object of strings that can be passed to the kernel, with such names."""
    try:
        return text("".join(value) + "".join(value.values()))
    except (AttributeError, TypeError):
        return False


def folders(value: "Any") -> bool:
    """Return whether a value is an object of names of folders, each one part of a path."""
    if not named_texts(value):
        return False
    for name in value.values():  # noqa: SIM110  # faster than all()
        if name in _NO_FOLDERS or "/" in name:
            return False
    return True


def flag(value: "Any") -> bool:
    """Return whether a value is true or false."""
    return type(value) is bool


def whole(value: "Any") -> bool:
    """Return whether a value is an integer."""
    return type(value) is int and -LARGEST < value < LARGEST


def count(value: "Any") -> bool:
    """Return whether a value is an integer and not negative."""
    return type(value) is int and 0 <= value < LARGEST


def bit(value: "Any") -> bool:
    """Return whether a value is the number of a bit in a set, such as a NUMA node's."""
    return type(value) is int and 0 <= value < _MOST_BITS


def number(value: "Any") -> bool:
    """Return whether a value is a finite number."""
    if type(value) is float:
        return -_LARGEST_FLOAT < value < _LARGEST_FLOAT  # faster than a comparison with an integer
    return whole(value)


def anything(value: "Any") -> bool:
    """Return true."""
    return True


def _all(shape: "Shape", values: "Iterable[Any]") -> bool:
    for value in values:  # noqa: SIM110  # faster than all()
        if not shape(value):
            return False
    return True


def each(shape: "Shape") -> "Shape":
    """Return the shape of a list."""
    return lambda value: type(value) is list and _all(shape, value)


def exactly(*shapes: "Shape") -> "Shape":
    """Return the shape of a list with these items."""
    return lambda value: (
        type(value) is list and len(value) == len(shapes) and all(one(item) for one, item in zip(shapes, value))
    )


def by_name(shape: "Shape") -> "Shape":
    """Return the shape of an object whose names are data."""
    return lambda value: type(value) is dict and text("".join(value)) and _all(shape, value.values())


def by_number(shape: "Shape") -> "Shape":
    """Return the shape of an object whose names are the numbers of L3 or memory domains."""
    return lambda value: type(value) is dict and _all(_is_number, value) and _all(shape, value.values())


def _is_number(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) < _DIGITS


def fields(required: "dict[str, Shape]", optional: "dict[str, Shape]") -> "Shape":
    """Return the shape of an object with these fields.

    Each pass of reconcile checks the records of all containers, most of which have the same fields in the same order:
    how these are checked is found once.
    """
    shapes = {**required, **optional}
    plans: "dict[tuple[str, ...], _Plan]" = {}

    def fits(value: "Any") -> bool:
        if type(value) is not dict:
            return False
        plan = plans.get(tuple(value)) or _plan(value, required, shapes, plans)
        if plan is None:
            return False
        strings, paths, others = plan
        if strings:
            try:
                joined = "".join([value[key] for key in strings])
            except TypeError:
                return False
            if "/.." in joined or "\0" in joined or not joined.isascii():
                return all(shapes[key](value[key]) for key in value if key in shapes)
            for key in paths:
                if value[key][:1] not in _ROOTS:
                    return False
        for key, shape in others:  # noqa: SIM110  # faster than all()
            if not shape(value[key]):
                return False
        return True

    return fits


def _plan(
    value: "dict[str, Any]",
    required: "dict[str, Shape]",
    shapes: "dict[str, Shape]",
    plans: "dict[tuple[str, ...], _Plan]",
) -> "_Plan | None":
    """Return how an object with these fields is checked, and keep it; None without a required one.

    Its strings are joined, some of them are paths, and the other fields have shapes.
    """
    if not required.keys() <= value.keys():
        return None
    known = [key for key in value if key in shapes]
    paths = [key for key in known if shapes[key] is path]
    strings = [key for key in known if shapes[key] in (text, name)] + paths
    if len(strings) < _FEW:
        strings, paths = [], []
    others = [(key, shapes[key]) for key in known if key not in strings]
    if len(plans) >= _MOST_PLANS:
        plans.clear()
    return plans.setdefault(tuple(value), (strings, paths, others))
