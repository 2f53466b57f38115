"""Changes of the package: each is of one module, in one place."""

import ast
import copy
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import changed

PROJECT = changed.PROJECT
OPERATORS: dict[type[ast.AST], Any] = {
    one: other
    for pair in (
        *((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
        *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.BitOr, ast.BitAnd)),
    )
    for one, other in (pair, pair[::-1])
}
"""Each stands in the place of the other."""
CHANGED = (
    *(ast.Compare, ast.BoolOp, ast.BinOp, ast.AugAssign, ast.UnaryOp, ast.Constant),
    *(ast.Return, ast.Expr, ast.Break, ast.Continue),
)
"""The nodes that have replacements."""


class Mutant(NamedTuple):
    """One change: of a module's text from `start` to `end`."""

    module: str
    line: int
    before: str
    after: str
    start: int
    end: int
    lines: range  # those of the statement with it
    function: int  # the line where the outermost function with it starts; 0: it is outside of functions
    source: str  # its line
    again: int  # how many before it in the module look the same

    @property
    def name(self) -> str:
        """Its name in mutants.json, without the line number, which changes."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        where = "" if before == self.source else f"  in  {self.source}"
        again = f"  ({self.again + 1})" if self.again else ""
        return f"{self.module}: {before}  ->  {after}{where}{again}"

    def __str__(self) -> str:
        return self.name.replace(":", f":{self.line}:", 1)

    @property
    def path(self) -> Path:
        return PROJECT / self.module

    def text(self) -> bytes:
        text = self.path.read_bytes()
        return text[: self.start] + self.after.encode() + text[self.end :]


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, CHANGED):
        return  # a copy of each function and class would take most of the time
    other = copy.deepcopy(node)
    if isinstance(other, ast.Compare) and type(other.ops[0]) in OPERATORS:
        other.ops[0] = OPERATORS[type(other.ops[0])]()
        yield other
    elif isinstance(other, (ast.BoolOp, ast.BinOp, ast.AugAssign)) and type(other.op) in OPERATORS:
        other.op = OPERATORS[type(other.op)]()
        yield other
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        yield other.operand
    elif isinstance(other, ast.Constant) and isinstance(other.value, (bool, int)):
        yield ast.Constant(not other.value if isinstance(other.value, bool) else other.value + 1)
    elif isinstance(other, ast.Return) and other.value is not None and not isinstance(other.value, ast.Constant):
        yield ast.Return(ast.Constant(None))
    elif isinstance(other, ast.Expr) and isinstance(other.value, ast.Call):
        yield ast.Pass()
    elif isinstance(other, (ast.Break, ast.Continue)):
        yield ast.Continue() if isinstance(other, ast.Break) else ast.Break()


def _nodes(tree: ast.AST, statement: ast.AST, function: int) -> Iterator[tuple[Any, Any, int]]:
    """Yield the nodes of code that runs, each with its statement and the line of the outermost function around it.

    Without annotations and the inside of f-strings, whose places are not exact; and without the other side of
    `error.errno or 0`, which only types ask for: the kernel always says a number; and without `TYPE_CHECKING = False`.
    """
    if isinstance(tree, ast.Assign) and ast.unparse(tree.targets[0]) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.BoolOp) and isinstance(tree.values[0], ast.Attribute) and tree.values[0].attr == "errno":
        return
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.JoinedStr):
            continue
        inside = function
        if not function and name == "body" and isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = min([tree.lineno, *(one.lineno for one in tree.decorator_list)])
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                place = node if isinstance(node, ast.stmt) else statement
                yield node, place, inside
                yield from _nodes(node, place, inside)


def mutants_of(path: Path) -> list[Mutant]:
    text = path.read_bytes()
    lines = text.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    tree = ast.parse(text)
    for node, place, function in _nodes(tree, tree, 0):
        if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        source = " ".join(lines[node.lineno - 1].decode().split())
        before = text[start:end].decode()
        around = range(getattr(place, "lineno", node.lineno), node.lineno + before.count("\n") + 1)
        for other in _changes(node):
            after = f"({ast.unparse(other)})" if isinstance(other, ast.expr) else ast.unparse(other)
            module = str(path.relative_to(PROJECT))
            one = Mutant(module, node.lineno, before, after, start, end, around, function, source, 0)
            found.append(one._replace(again=seen[one.name]))
            seen[one.name] += 1
    return found
