"""Every key of every house, taken from the schema, so that a new key is covered by itself; keys of missing houses.

A document survives the way YAML, compiled, shown, YAML; a wrong one is refused with line and key; each key's kind,
default, bounds and messages are one golden table.
"""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import yaml
from conftest import examples
from golden import Golden
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_checks import refusal

from core.config.judged import check
from resctrl_hooks.core.config.applied import compiled, effective, explicit_values_of
from resctrl_hooks.core.config.root import Configuration
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.config.section import by_key
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.core.parts import load, parts

SCHEMA = json_schema()
Node = dict[str, Any]
Path = tuple[str, ...]
ANY, ITEM = "*", "[]"
"""In a path: a key of the operator's choice, and an item of a list."""


def resolved(node: Node) -> Node:
    """Return a part of the schema without references and the alternative null."""
    if "$ref" in node:
        return {**SCHEMA["$defs"][node["$ref"].rpartition("/")[2]], **{k: v for k, v in node.items() if k != "$ref"}}
    kinds = [one for one in node.get("anyOf", []) if one.get("type") != "null"]
    if len(kinds) == 1:
        return resolved({**{k: v for k, v in node.items() if k != "anyOf"}, **kinds[0]})
    return {**node, "anyOf": kinds} if kinds else node


def keys(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every key of the schema, each item of a list, and keys of the operator's choice."""
    node = resolved(node)
    if path:
        yield path, node
    inner = [(name, one) for name, one in node.get("properties", {}).items()]
    inner += [(ANY, one) for one in (node.get("additionalProperties"), *node.get("patternProperties", {}).values())
              if isinstance(one, dict)]  # fmt: skip
    inner += [(ITEM, node["items"])] if "items" in node else []
    for name, one in inner:
        yield from keys(one, (*path, name))


KEYS = dict(keys(SCHEMA))
REQUIRED = {path: node.get("required", []) for path, node in KEYS.items()}


def minimal(node: Node) -> Any:
    """Return a value for a required key."""
    node = resolved(node)
    if "anyOf" in node:
        return minimal(node["anyOf"][0])
    least = node.get("minimum", 0)
    return (
        node["enum"][0] if "enum" in node else {"string": "a", "integer": least, "number": least}.get(node["type"], [])
    )


def document(path: Path, value: Any) -> Any:
    """Return a document with a value at a path, and what the schema requires beside it."""
    made: Any = value
    for place in range(len(path) - 1, -1, -1):
        made = [made] if path[place] == ITEM else {"0" if path[place] == ANY else path[place]: made}
        if isinstance(made, dict):
            above = path[:place]
            for name in REQUIRED.get(above, []):
                made.setdefault(name, minimal(KEYS[*above, name]))
    return made


WORDS = st.sampled_from(["a", "b", "0", "1", "/x", "/dev/sda", "memory.high", "50%", "512M", "1G", "2MB", "ff", "Ü"])


def values(node: Node) -> st.SearchStrategy[Any]:
    """Return values that the schema allows; validators may refuse some of them."""
    node = resolved(node)
    if "enum" in node or "const" in node:
        return st.sampled_from(node.get("enum", [node.get("const")]))
    if "anyOf" in node:
        return st.one_of([values(one) for one in node["anyOf"]])
    kind = node.get("type")
    if kind == "string":
        return st.from_regex(node["pattern"], fullmatch=True) if "pattern" in node else WORDS
    if kind in ("integer", "number"):
        least: Any = node.get("minimum", node.get("exclusiveMinimum", -1000))
        most: Any = node.get("maximum", node.get("exclusiveMaximum", least + 5000))
        return st.integers(int(least), int(most)) if kind == "integer" else st.floats(least, most, width=16)
    if kind == "array":
        return st.lists(values(node["items"]), min_size=node.get("minItems", 0), max_size=2)
    if kind == "object":
        more = [one for one in (node.get("additionalProperties"), *node.get("patternProperties", {}).values())
                if isinstance(one, dict)]  # fmt: skip
        named = {name: values(one) for name, one in node.get("properties", {}).items()}
        required = {name: named.pop(name) for name in node.get("required", [])}
        if named:
            chosen = st.lists(st.sampled_from([*named]), max_size=2, unique=True)
            return chosen.flatmap(
                lambda names: st.fixed_dictionaries({**required, **{one: named[one] for one in names}})
            )
        return st.dictionaries(WORDS, st.one_of([values(one) for one in more]), max_size=2) if more else st.just({})
    return st.booleans() if kind == "boolean" else st.none() | WORDS


WRONG: list[Any] = [True, 7, "x y", [1], {"x": 1}]
"""A value of each kind."""


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Return a document with a value of each of two keys, possibly with one thing wrong."""
    made: dict[str, Any] = {}
    for path in draw(st.lists(st.sampled_from([*KEYS]), min_size=1, max_size=2)):
        made |= document(path, draw(values(KEYS[path])))
    places: list[Any] = [made]
    for one in places:
        places += [
            inner for inner in (one.values() if isinstance(one, dict) else one) if isinstance(inner, dict | list)
        ]
    place = draw(st.sampled_from([one for one in places if one]))
    key: Any = draw(st.sampled_from([*place] if isinstance(place, dict) else range(len(place))))
    change = draw(st.sampled_from(["nothing", "nothing", "value", "missing", "name"]))
    if change == "value":
        place[key] = draw(st.sampled_from([*WRONG, None, float("nan"), "", -1]))
    elif change == "missing":
        del place[key]
    elif change == "name" and isinstance(place, dict):
        place[draw(st.sampled_from([f"{key}s", key.swapcase(), "zzz", 3]))] = place.pop(key)
    return made


@settings(max_examples=examples(40))
@given(documents())
def test_document_survives_its_way_or_is_refused_with_line_and_key(made: dict[Any, Any]) -> None:
    checked = check(yaml.safe_dump(made, sort_keys=False))
    assert (checked.config is None) == bool(checked.errors)
    for problem in checked.problems:
        assert problem.line > 0
        assert problem.what
        assert problem.key or "read as" in problem.what or "without" in problem.what, problem
    if checked.config is None:
        return
    given_ = checked.config.given()
    assert refusal(given_, SCHEMA) == ""
    assert check(yaml.safe_dump(given_)).valid().given() == given_
    read = json.loads(compiled(checked.config, applied_from="1"))
    Settings(read)
    assert {key: read[key] for key in given_} == given_
    assert "null" not in json.dumps(given_).replace("/dev/null", "")
    assert effective(given_) == (explicit_values_of(checked.config), None)


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_has_a_result(text: str) -> None:
    checked = check(text)
    assert (checked.config is None) == bool(checked.errors)


def shown(path: Path) -> str:
    return ".".join(path).replace(f".{ITEM}", ITEM)


def test_kinds_defaults_and_bounds_of_all_keys(golden: Golden) -> None:
    lines = []
    for path, node in KEYS.items():
        facts = {key: value for key, value in node.items() if key not in (
            "description", "title", "properties", "items", "additionalProperties", "patternProperties", "field_title",
        )}  # fmt: skip
        if isinstance(facts.get("default"), dict) and facts["default"] and "properties" in node:
            del facts["default"]  # those of its keys
        lines.append(f"{shown(path)}: {json.dumps(facts)}")
    golden("\n".join(lines))


def test_message_for_a_wrong_kind_of_each_key(golden: Golden) -> None:
    lines = []
    for path in KEYS:
        found: dict[str, list[str]] = {}
        for value in WRONG:
            problems = [one for one in check(yaml.safe_dump(document(path, copy.deepcopy(value)))).problems
                        if one.severity == "error"]  # fmt: skip
            for problem in problems[:1]:
                found.setdefault(str(problem).replace("c.yaml:", ""), []).append(json.dumps(value))
        lines += [shown(path), *(f"    {' '.join(of)} => {text}" for text, of in found.items())]
    golden("\n".join(lines))


# Keys and commands of the configuration that houses add, with their house and without it

# The same in a process without a house, because the models are created when they are imported.
WITHOUT = """
import sys
import click
from resctrl_hooks.core import parts
parts.HOUSES = [house for house in parts.HOUSES if house not in sys.argv[1].split()]
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.config.root import Configuration
from resctrl_hooks.core.config.section import by_key
print(*by_key(Configuration))
print(*main.get_command(click.Context(main), "config").commands)
print(*check_text(sys.argv[2].encode(), "c.yaml").problems, sep="\\n")
"""


KEYS_OF = {
    part.name: {f"{keys.section}.{key}".lstrip(".") for keys in part.keys for key in by_key(load(keys.model))}
    for part in parts()
    if part.keys
}


def test_keys_and_conversion_of_missing_houses_are_unknown() -> None:
    text = "log: {}\nplacement: {}\nrdt:\n  guard: {}\nevents: true\nnri:\n  adjust: []\nclasses:\n- name: a\n  env: {}"
    command = [sys.executable, "-c", WITHOUT, " ".join(KEYS_OF), text]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    keys, commands, *problems = done.stdout.splitlines()
    assert keys.split() == [key for key in by_key(Configuration) if not any(key in of for of in KEYS_OF.values())]
    assert commands.split() == ["check", "apply", "show", "schema"]
    unknown = [(2, "placement"), (4, "rdt.guard"), (5, "events"), (6, "nri"), (10, "classes[0].env")]
    found = [one.partition("; ")[0] for one in problems]
    assert found == [f"c.yaml:{line}: {key}: unknown key" for line, key in unknown]
    assert "placement," not in problems[0].partition("known here")[2]
