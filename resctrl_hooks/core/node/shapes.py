"""The types of fields in state files, and the check that follows from a record's types.

A record is a class of `TypedDict`, for type checkers that of the standard library. `shape_of` derives the check of a
file's content from the same types: all required fields are there, and each field fits its type. A file that does not
fit is damaged, and never half believed. Fields that a record does not name may have any value: a newer version adds
some.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Annotated as Annotated  # noqa: PLC0414  # so that mypy exports it, as those below
    from typing import Any

    from typing_extensions import NotRequired as NotRequired  # noqa: PLC0414
    from typing_extensions import TypedDict as TypedDict  # noqa: PLC0414

    Shape = Callable[[Any], bool]
    _Plan = tuple[Collection[str], Iterable[str], Iterable[tuple[str, Shape]], dict[str, Shape]]

_MOST_BITS = 1 << 16
_ROOTS = ("", "/")
_NO_FOLDERS = ("", ".", "..")
_MOST_PLANS = 64
_FEW = 3
LARGEST = 1 << 62
"""The bound of any number: of a kernel's counter, and of nanoseconds."""
_LARGEST_FLOAT = float(LARGEST)


def fits(kind: "Any", value: "Any") -> bool:
    """Return whether a JSON value is of a type."""
    return shape_of(kind)(value)


def shape_of(kind: "Any") -> "Shape":
    """Return the check of a type: of a record, of lists and objects of types, or of one above."""
    origin = _origin(kind)
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


def _origin(kind: "Any") -> "Any":
    return getattr(kind, "__origin__", None)


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


def _fields(record: "Any") -> "Shape":
    """Return the check of a record.

    Each pass of reconcile checks the records of all containers, most of which have the same fields in the same order:
    how these are checked is found once.
    """
    plans: "dict[tuple[str, ...], _Plan]" = {}

    def fits(value: "Any") -> bool:
        if type(value) is not dict:
            return False
        plan = plans.get(tuple(value)) or _plan(value, record, plans)
        if plan is None:
            return False
        strings, paths, others, shapes = plan
        if strings:
            try:
                joined = "".join([value[key] for key in strings])
            except TypeError:
                return False
            if "/.." in joined or "\0" in joined or not joined.isascii():
                return all(shapes[key](value[key]) for key in shapes)
            for key in paths:
                if value[key][:1] not in _ROOTS:
                    return False
        for key, shape in others:  # noqa: SIM110  # faster than all()
            if not shape(value[key]):
                return False
        return True

    return fits


def _plan(value: "dict[str, Any]", record: "Any", plans: "dict[tuple[str, ...], _Plan]") -> "_Plan | None":
    """Return how a record with these fields is checked, and keep it; None without a required one.

    Its strings are joined, some of them are paths, the other fields have checks, and last are the checks of all.
    """
    if not record.required <= value.keys():
        return None
    shapes = {key: shape_of(record.types[key]) for key in value if key in record.types}
    paths = [key for key in shapes if shapes[key] is _path]
    strings = [key for key in shapes if shapes[key] in (_text, _name)] + paths
    if len(strings) < _FEW:
        strings, paths = [], []
    others = [(key, shapes[key]) for key in shapes if key not in strings]
    if len(plans) >= _MOST_PLANS:
        plans.clear()
    return plans.setdefault(tuple(value), (strings, paths, others, shapes))


if not TYPE_CHECKING:
    # Generic types without values in JSON; an import of `typing` takes as long as a call of a hook.
    Annotated, NotRequired = set, frozenset

    class _Record:
        """A record. The interpreter makes another one of a class statement whose base it is, which is not a class.

        Attributes:
            types: its fields' types.
            required: the names of those that it must have.
            shape: its check.
        """

        types, required = {}, frozenset()

        def __init__(
            self, name: str, bases: "tuple[_Record, ...]", body: "dict[str, Any]", *, total: bool = True
        ) -> None:
            own = body.get("__annotations__") or type(name, (), body).__annotations__  # Python 3.14 has a function
            for base in bases:
                self.types, self.required = {**base.types, **own}, base.required
            if total:
                self.required = self.required.union(key for key in own if _origin(own[key]) is not NotRequired)
            self.shape = _fields(self)

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
