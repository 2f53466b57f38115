"""The compressed archive of the node half's modules in a MachineConfig, without comments, docstrings and annotations.

One file in place of a hundred keeps the object far below the size that `kubectl apply` stores in an annotation (262144
bytes). Statements keep their lines, so that tracebacks match the repository.
"""

import ast
import bz2
import functools
import io
import tarfile
import tokenize
from collections.abc import Iterator

_MODE = 0o644
_Place = tuple[int, int]
"""A line, from 1, and a byte in it, from 0, as in `ast`."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def pack(modules: dict[str, bytes]) -> bytes:
    """Return the modules as a tar archive in bzip2; the same modules give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, source in sorted(modules.items()):
            text = for_machines(source)
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(text), _MODE
            archive.addfile(member, io.BytesIO(text))
    return bz2.compress(packed.getvalue())


@functools.cache  # half a second for all modules, which a process may deliver more than once
def for_machines(source: bytes) -> bytes:
    """Return a module's source without comments, docstrings, annotations and imports for type checkers."""
    tree = ast.parse(source)
    lines = source.splitlines()
    tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    spans = [*_comments(tokens, lines), *_annotations(tree, tokens)]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)):
            for statement in node.body:
                if _is_text(statement) or _is_for_checkers(statement):
                    alone = len(node.body) == 1 and not isinstance(node, ast.Module)
                    spans.append((*_span(statement), b"pass" if alone else b""))
    for (first, start), (last, end), rest in sorted(spans, reverse=True):
        joined = lines[first - 1][:start] + rest + lines[last - 1][end:]
        lines[first - 1 : last] = [joined.rstrip(), *[b""] * (last - first)]
    return b"\n".join([*lines, b""])


def _comments(tokens: list[tokenize.TokenInfo], lines: list[bytes]) -> Iterator[tuple[_Place, _Place, bytes]]:
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row = token.start[0]
            yield (row, _bytes(token)[1]), (row, len(lines[row - 1])), b""


def _annotations(tree: ast.Module, tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[_Place, _Place, bytes]]:
    """Yield the annotations of functions' arguments and return values, and of variables with a value."""
    arrows = [_bytes(token) for token in tokens if token.string == "->"]
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield (node.lineno, node.col_offset + len(node.arg.encode())), _span(node.annotation)[1], b""
        elif isinstance(node, _FUNCTIONS) and node.returns is not None:
            start, end = _span(node.returns)
            row, column = max(arrow for arrow in arrows if arrow < start)
            yield (row, column - 1), end, b""  # includes the preceding space
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield _span(node.target)[1], _span(node.annotation)[1], b""


def _bytes(token: tokenize.TokenInfo) -> _Place:
    """Return the byte position of a token; `tokenize` counts characters."""
    row, column = token.start
    return row, len(token.line[:column].encode())


def _span(node: ast.stmt | ast.expr) -> tuple[_Place, _Place]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _is_text(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, also of a variable."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_for_checkers(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING" and not statement.orelse
