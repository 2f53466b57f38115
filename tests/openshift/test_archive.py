"""The archive of modules: all statements, each on its line, without parts for readers."""

import ast
import io
import tarfile

import pytest
from hosts.node_half import payload_once

from resctrl_hooks.openshift.archive import for_machines, pack


def unpacked_archive(data: bytes) -> dict[str, bytes]:
    """Return the modules in an archive, read by the standard library alone."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:bz2") as archive:
        contents = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in contents.items() if file}


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.ci)])
def test_archive_holds_every_module_with_each_statement_on_its_line(step: int) -> None:
    modules = dict([*payload_once().modules.items()][::step])
    packed = unpacked_archive(pack(modules))
    assert packed.keys() == modules.keys()
    for name, data in modules.items():
        assert statements(packed[name]) == statements(data), name


def test_archive_omits_reader_only_parts() -> None:
    source = b'''"""Docs."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from x import Y  # why

VALUE: "Y" = 1  # \xc3\xa9
"""What it is."""


def f(a: "Y", *b: "dict[str, int]", c: "Y" = "# \xc3\xa9", **d: int) -> "Y":
    """Docs."""


class C:
    """Docs,
    of two lines."""

    def g(self) -> None:
        """Docs."""
        # a comment
        return f(1)  # another
'''
    assert (
        for_machines(source).decode()
        == """
TYPE_CHECKING = False



VALUE = 1



def f(a, *b, c = "# é", **d):
    pass


class C:



    def g(self):


        return f(1)
"""
    )


class Bare(ast.NodeTransformer):
    """Remover of parts for readers and type checkers only."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [one for one in node.body if not (isinstance(one, ast.Pass) or is_for_readers(one))]
        return node


def statements(source: bytes) -> list[tuple[str, list[int]]]:
    """Return a module's statements as text, and the lines on which it has some."""
    tree = Bare().visit(ast.parse(source))
    return [(ast.dump(one), [node.lineno for node in ast.walk(one) if isinstance(node, ast.stmt)]) for one in tree.body]


def is_for_readers(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
