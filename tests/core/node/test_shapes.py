"""Each field that `records` and `node_records` declare has its type in the shape of its file."""

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

import pytest
from typing_extensions import is_typeddict

from resctrl_hooks.core.node import file_shapes, record_shapes, shapes
from resctrl_hooks.core.node.watch.status import SHAPE as WATCH

NODE = Path(shapes.__file__).parent
LEAVES = {str: "", int: 1, float: 0.5, bool: True, Any: {}}
FILLED: dict[str, Any] = {
    "online": "0",
    "values of CgroupNeeds": [["", ""]],
    "values of SchedulingNeeds": [["", ""]],
    "names": ["", "", ""],
    "names of PodRecord": {"": "0"},
    "renaming": {"": "0"},
    "hints": [["", ""]],
    "pulls": [["", 1]],
    "processes": [[1, 1]],
    "since of TurnsRecord": {"0": [True, 0.5]},
    "pods of VanishedRecord": {"0": [1, 0.5, 0.5]},
    "uptime of VanishedRecord": {"0": [0.5, 0.5, 0.5]},
}
"""Values of fields whose types say less than their shapes."""
ROWS: dict[str, tuple[Callable[[Any], bool], set[str]]] = {
    "PodRecord": (record_shapes.POD, {"format"}),  # the ledger reads it first
    "MemberRecord": (record_shapes.MEMBER, {"format", "steps.0.needs"}),  # by feature: the rows below
    "ClassNeeds": (record_shapes._NEEDS["rdt"], set()),
    "LimitNeeds": (record_shapes._NEEDS["memory"], set()),
    "CgroupNeeds": (record_shapes._NEEDS["blockio"], set()),
    "SchedulingNeeds": (record_shapes._NEEDS["scheduling"], set()),
    "MemtierdNeeds": (record_shapes._NEEDS["memtierd"], set()),
    "PlacementNeeds": (record_shapes._NEEDS["placement"], set()),
    "NodeValuesRecord": (file_shapes.NODE_VALUES, set()),
    "AllocationsRecord": (file_shapes.ALLOCATIONS, set()),
    "TurnsRecord": (file_shapes.COUNTER_TURNS, set()),
    "ClassCountersRecord": (file_shapes.RELEASED_COUNTERS, set()),
    "CallMetricsRecord": (file_shapes.CALL_METRICS, set()),
    "KeptTopologyRecord": (file_shapes.TOPOLOGY, set()),
    "SupervisorRecord": (file_shapes.SUPERVISOR, set()),
    "VanishedRecord": (file_shapes.VANISHED, set()),
    "WatchRecord": (WATCH, set()),
}
"""By type: its shape, and the parts that the shape leaves to others."""


def declared(name: str) -> dict[str, Any]:
    """Return the types of a module that only type checkers import."""
    module = types.ModuleType(name)
    sys.modules[name] = module  # where get_type_hints looks for names
    source = (NODE / f"{name}.py").read_text(encoding="utf-8").replace("TYPE_CHECKING = False", "TYPE_CHECKING = True")
    exec(compile(source, name, "exec"), vars(module))  # the package's own text
    return vars(module)


TYPES = {**declared("records"), **declared("node_records")}


def sample(kind: Any) -> Any:
    """Return a value of a declared type with every field."""
    if is_typeddict(kind):
        fields = get_type_hints(kind).items()
        return {key: FILLED.get(f"{key} of {kind.__name__}", FILLED.get(key)) or sample(of) for key, of in fields}
    origin, inner = get_origin(kind), [sample(of) for of in get_args(kind)]
    if origin is dict:
        return {"0": inner[1]}
    if origin in (list, tuple):
        return inner
    return inner[0] if origin is NotRequired else LEAVES[kind]


def damaged(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the value with each of its parts replaced by one of another type, with that part's path."""
    yield path[1:], {str: 1, int: "1", float: "1", bool: "1", dict: [1], list: {"0": 1}}[type(value)]
    items = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for key, item in items:
        for where, other in damaged(item, f"{path}.{key}"):
            whole = value.copy()
            whole[key] = other
            yield where, whole


@pytest.mark.parametrize("name", ROWS)
def test_shape_checks_every_declared_field(name: str) -> None:
    check(name, *ROWS[name])


def check(name: str, fits: Callable[[Any], bool], elsewhere: set[str]) -> None:
    """Check that a shape refuses another type in each field of a record but those that it leaves to others."""
    value = sample(TYPES[name])
    assert fits(value)
    assert {path for path, other in damaged(value) if fits(other)} == elsewhere
