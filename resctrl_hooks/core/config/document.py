"""A parsed YAML document with the line of each value, and the text of a document.

The parser accepts YAML as the NRI plugins do, except that timestamps stay text and duplicate keys are errors.
"""

from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .section import KeyPath

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_DEEPEST = 60
_LONGEST = 1 << 20  # characters with aliases expanded; without aliases, no longer than the file


class DocumentError(Exception):
    """Invalid YAML, or YAML that a configuration cannot contain; with the line and the remedy."""

    def __init__(self, what: str, right: str = "", line: int = 0) -> None:
        super().__init__(what)
        self.what, self.right, self.line = what, right, line


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without dates: a label's value 2024-01-01 is text."""

    yaml_implicit_resolvers = {  # as PyYAML declares it
        letter: [(tag, expression) for tag, expression in resolvers if tag != _TIMESTAMP]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass
class Document:
    """A parsed document: its value as plain JSON types, and the position of every part."""

    path: str
    value: Any = None
    root: Node | None = field(default=None, repr=False)

    def line(self, path: KeyPath, within: int = 0) -> int:
        """Return the line, from 1, of the key or item at a key path, or of its nearest existing parent.

        ``within`` is a line within the value, which counts if the value is a block (``|`` or ``>``).
        """
        node, line = self.root, 0
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            key, node = found
            line = key.start_mark.line + 1
        if within and isinstance(node, ScalarNode) and node.style in ("|", ">"):
            return int(node.start_mark.line) + 1 + within
        return line or (1 if self.root is not None else 0)


def parse_document(text: bytes, path: str) -> Document:
    """Parse the text of the file ``path``.

    Raises:
        DocumentError: it is not one YAML document of mappings, lists, strings, numbers and booleans.
    """
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise DocumentError("the file is not UTF-8", "save it as UTF-8", line) from None
    try:
        loader = _Loader(decoded)
    except yaml.reader.ReaderError as error:
        line = decoded.count("\n", 0, error.position) + 1
        raise DocumentError(f"a character that YAML forbids: #x{error.character:04x}", "remove it", line) from None
    try:
        root = loader.get_single_node()
        return Document(path, _Builder(loader).build(root) if root is not None else None, root)
    except yaml.MarkedYAMLError as error:
        raise _of_yaml(error) from None
    except RecursionError:
        raise DocumentError("nested too deeply", "reduce the nesting") from None
    finally:
        loader.dispose()


def _of_yaml(error: yaml.MarkedYAMLError) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    what = f"not YAML: {error.problem or error.context}"
    right = "indent with spaces" if "'\\t'" in what else ""
    if "another document" in what or "expected a single document" in f"{error.context}":
        what, right = "a second document begins here", "keep one configuration in one file"
    if error.context and error.problem and "single document" not in error.context:
        what += f" ({error.context})"
    return DocumentError(what, right, mark.line + 1 if mark is not None else 0)


def _refusal(node: Node, what: str, right: str) -> DocumentError:
    return DocumentError(what, right, node.start_mark.line + 1)


def _child(node: Node | None, part: str | int) -> tuple[Node, Node] | None:
    """Return the node at which a part begins (a key, an item), and the node of its value."""
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    if isinstance(node, MappingNode):
        for key, value in reversed(node.value):
            if isinstance(key, ScalarNode) and key.value == part:
                return key, value
    return None


class _Builder:
    """Converter from nodes to plain values.

    An alias is built once but counted each time, because validation visits each use.
    """

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._done: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._size = 0
        self._open: set[int] = set()

    def build(self, node: Node, depth: int = 0) -> Any:
        """Return the value of a node with everything below it."""
        if id(node) in self._done:
            self._count(self._sizes[id(node)], node)
            return self._done[id(node)]
        if id(node) in self._open:
            raise _refusal(node, "an alias contains itself", "write it out")
        if depth > _DEEPEST:
            raise _refusal(node, "nested too deeply", "reduce the nesting")
        before = self._size
        self._count(len(node.value) if isinstance(node, ScalarNode) else 1, node)
        self._open.add(id(node))
        value = self._value(node, depth + 1)
        self._open.discard(id(node))
        self._done[id(node)] = value
        self._sizes[id(node)] = self._size - before
        return value

    def _count(self, size: int, node: Node) -> None:
        self._size += size
        if self._size > _LONGEST:
            raise _refusal(node, "its aliases expand to too much data", "use patterns (`team-*`) for many names")

    def _value(self, node: Node, depth: int) -> Any:
        if isinstance(node, MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, depth)
        if isinstance(node, SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.build(item, depth) for item in node.value]
        return self._scalar(node)

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        own: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and key.value in own and key.tag != "tag:yaml.org,2002:merge":
                raise _refusal(key, f"the key {key.value!r} is a duplicate of line {own[key.value]}", "keep one")
            own[key.value if isinstance(key, ScalarNode) else ""] = key.start_mark.line + 1
        self._loader.flatten_mapping(node)
        value: dict[str, Any] = {}
        for key, item in node.value:
            name = self._scalar(key)
            if not isinstance(name, str):
                raise _refusal(key, f"the key {key.value!r} is read as {name!r}, not as text", "quote it")
            value[name] = self.build(item, depth)
        return value

    def _scalar(self, node: Node) -> Any:
        try:
            value = self._loader.construct_object(node) if isinstance(node, ScalarNode) else node
        except (ValueError, OverflowError, LookupError) as error:  # the last for `!!bool maybe` and `!!int ""`
            raise _refusal(node, f"invalid value {node.value[:40]!r}: {error}", "put it in quotes") from None
        if value is not None and not isinstance(value, (str, int, float, bool)):
            raise _refusal(node, f"a value of the kind {node.tag} is not allowed here", "write a plain value")
        return value


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes multi-line strings as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def format_document(value: Any) -> str:
    """Return the text of a document, without a final line break."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1000).rstrip()
