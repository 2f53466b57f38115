"""The archive of the node half's modules that a MachineConfig delivers: the sources without comments and docstrings.

One file in place of a hundred keeps the object far below what `kubectl apply` stores in an annotation (262144 bytes).
Each statement keeps its line, so that a traceback of a node names the line in the repository.
"""

import ast
import bz2
import io
import tarfile
import tokenize

_MODE = 0o644


def pack(modules: dict[str, bytes]) -> bytes:
    """Return the modules as a tar archive in bzip2; the same modules give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, source in sorted(modules.items()):
            text = without_comments(source)
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(text), _MODE
            archive.addfile(member, io.BytesIO(text))
    return bz2.compress(packed.getvalue())


def without_comments(source: bytes) -> bytes:
    """Return a module's source without comments and docstrings; all other lines stay, where they are."""
    text = source.decode()
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                if _is_text(statement) and statement.end_lineno is not None:
                    first, last = statement.lineno - 1, statement.end_lineno
                    alone = len(node.body) == 1 and not isinstance(node, ast.Module)
                    rest = f"{lines[first][: statement.col_offset]}pass" if alone else ""
                    lines[first:last] = [rest, *[""] * (last - first - 1)]
    return "\n".join([*lines, ""]).encode()


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, or a text in the place of one after a variable."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
