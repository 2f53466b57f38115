"""The types of fields in state files, and the check that follows from a record's types.

A record is a class of `TypedDict`, for type checkers that of the standard library. `shape_of` derives the check of a
file's content from the same types: all required fields are there, and each field fits its type. A file that does not
fit is damaged, and never half believed. Fields that a record does not name may have any value: a newer version adds
some.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Annotated as Annotated  # noqa: PLC0414  # so that mypy exports it, as those below
    from typing import Any

    from typing_extensions import NotRequired as NotRequired  # noqa: PLC0414
    from typing_extensions import TypedDict as TypedDict  # noqa: PLC0414

    Shape = Callable[[Any], bool]

_MOST_BITS = 1 << 16
_NO_FOLDERS = ("", ".", "..")
LARGEST = 1 << 62
"""The bound of any number: of a kernel's counter, and of nanoseconds."""
_LARGEST_FLOAT = float(LARGEST)


def fits(kind: "Any", value: "Any") -> bool:
    """Return whether a JSON value is of a type."""
    return shape_of(kind)(value)


def shape_of(kind: "Any") -> "Shape":
    """Return the check of a type: of a record, of lists and objects of types, or of one of those below."""
    origin = getattr(kind, "__origin__", None)
    if origin is None:
        shape: "Shape" = getattr(kind, "shape", kind)
        return shape
    if origin is Annotated:
        return shape_of(kind.__args__[1])
    shapes = [shape_of(one) for one in kind.__args__]
    if origin is list:
        return lambda value: type(value) is list and _all(shapes[0], value)
    if origin is dict:
        return _by_name(*shapes)
    return exactly(*shapes) if origin is tuple else shapes[0]


def exactly(*kinds: "Any") -> "Shape":
    """Return the check of a list with items of these types."""
    shapes = [shape_of(kind) for kind in kinds]
    return lambda value: (
        type(value) is list and len(value) == len(shapes) and all(one(item) for one, item in zip(shapes, value))
    )


def _by_name(name: "Shape", shape: "Shape") -> "Shape":
    """Return the check of an object whose names are data."""
    return lambda value: (
        type(value) is dict
        and (_text("".join(value)) if name is _text else _all(name, value))
        and _all(shape, value.values())
    )


def _all(shape: "Shape", values: "Iterable[Any]") -> bool:
    for value in values:  # noqa: SIM110  # faster than all()
        if not shape(value):
            return False
    return True


if not TYPE_CHECKING:
    # Generic types without values in JSON; an import of `typing` takes as long as a call of a hook.
    Annotated, NotRequired = set, frozenset

    class _Record:
        """A record. The interpreter makes another one of a class statement whose base it is, which is not a class.

        Attributes:
            types: its fields' types.
            required: the names of those that it must have.
        """

        types, required = {}, frozenset()

        def __init__(
            self, name: str, bases: "tuple[_Record, ...]", body: "dict[str, Any]", *, total: bool = True
        ) -> None:
            own = body.get("__annotations__") or type(name, (), body).__annotations__  # Python 3.14 has a function
            for base in bases:
                self.types, self.required = {**base.types, **own}, base.required
            if total:
                self.required = self.required.union(
                    key for key in own if getattr(own[key], "__origin__", None) is not NotRequired
                )
            self._shapes = {}

        def shape(self, value: "Any") -> bool:
            """Return whether a value has all required fields, and each field fits."""
            if type(value) is not dict or not self.required <= value.keys():
                return False
            for key, item in value.items():
                shape = self._shapes.get(key)
                if shape is None:
                    if key not in self.types:
                        continue
                    shape = self._shapes[key] = shape_of(self.types[key])
                if not shape(item):
                    return False
            return True

        def __call__(self, name: str, types: "dict[str, Any]") -> "_Record":
            """Return a record with fields whose names are keywords of Python."""
            return _Record(name, (self,), {"__annotations__": types})

    TypedDict = _Record.__new__(_Record)


def _text(value: "Any") -> bool:
    if type(value) is not str or "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _name(value: "Any") -> bool:
    return type(value) is str


def _path(value: "Any") -> bool:
    return _text(value) and (not value or (value[0] == "/" and "/../" not in f"{value}/"))


def _number(value: "Any") -> bool:
    if type(value) is float:
        return -_LARGEST_FLOAT < value < _LARGEST_FLOAT  # faster than a comparison with an integer
    return type(value) is int and -LARGEST < value < LARGEST


Anything = Annotated["Any", lambda _: True]
Text = Annotated[str, _text]
"""A string that can be passed to the kernel."""
Name = Annotated[str, _name]
"""A string; characters that cannot be shown are replaced by the reader."""
Path = Annotated[str, _path]
"""A normalized absolute path, or empty."""
Folder = Annotated[str, lambda value: _text(value) and value not in _NO_FOLDERS and "/" not in value]
"""The name of a folder, one part of a path."""
Flag = Annotated[bool, lambda value: type(value) is bool]
Whole = Annotated[int, lambda value: type(value) is int and -LARGEST < value < LARGEST]
Count = Annotated[int, lambda value: type(value) is int and 0 <= value < LARGEST]
Bit = Annotated[int, lambda value: type(value) is int and 0 <= value < _MOST_BITS]
"""The number of a bit in a set, such as a NUMA node's."""
Number = Annotated[float, _number]
"""A finite number."""
