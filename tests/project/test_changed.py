"""Which test files a change concerns."""

from pathlib import Path

import changed
import pytest

# Each of them reads the imports of all files, which one process does once.
pytestmark = [pytest.mark.xdist_group("changed"), pytest.mark.no_cover]
NODE = "resctrl_hooks/core/node"
LAB = "tests/lab"


@pytest.mark.parametrize(
    "name, among, not_among",
    [
        (f"{NODE}/host/cpulist.py", {"tests/core/node/host/test_topology.py"}, {"tests/nri/node/test_wire.py"}),
        (f"{NODE}/hook/call.py", {"tests/core/node/hook/", "tests/lab/kernel/test_lifetimes.py"},
         {"tests/observe/view/"}),
        ("resctrl_hooks/placement/node/pools.py",
         {f"{LAB}/kernel/test_placement.py"}, {f"{LAB}/kernel/test_podman.py"}),
        (f"{NODE}/ledger.py", {"tests/core/node/test_ledger.py"}, {"tests/core/node/host/test_topology.py"}),
        pytest.param("tests/hosts/machines.py", {"tests/placement/node/test_policy"},
                     {"tests/core/node/test_ledger.py"}, marks=pytest.mark.houses("placement")),
        (f"{LAB}/conformance/filesystem.py", {f"{LAB}/conformance/test_groups.py"}, {"tests/core/node/test_ledger.py"}),
        (f"{LAB}/vm/cache.py",
         {f"{LAB}/vm/test_cache.py", f"{LAB}/vm/test_suite.py"}, {"tests/core/node/test_ledger.py"}),
        ("docs/security.md", {"tests/project/test_docs.py"}, {"tests/core/node/test_ledger.py"}),
        pytest.param("tests/lab/demo/test_demo.py", {"tests/lab/demo/test_demo.py"}, {"tests/project/test_docs.py"},
                     marks=pytest.mark.houses("lab")),
    ],
)  # fmt: skip
def test_change_selects_its_tests(name: str, among: set[str], not_among: set[str]) -> None:
    every = [str(path.relative_to(changed.PROJECT)) for path in (changed.PROJECT / "tests").rglob("test_*.py")]
    found = {path for path in every if changed.concerns(path, [name])}
    assert [start for start in among if not any(path.startswith(start) for path in found)] == []
    assert [start for start in not_among if any(path.startswith(start) for path in found)] == []


def test_change_of_common_module_selects_all() -> None:
    assert all(changed.concerns("tests/project/test_docs.py", [name]) for name in changed.EVERYTHING)
    assert [name for name in {*changed.EVERYTHING, *changed.HUBS, *changed.ON_A_KERNEL}
            if not (changed.PROJECT / name).exists()] == []  # fmt: skip


def test_every_package_test_file_mirrors_its_module() -> None:
    modules = [path.relative_to(changed.PROJECT) for path in (changed.PROJECT / NODE).rglob("*.py")]
    assert [str(path) for path in modules if path.name != "__init__.py" and not changed.mirrored(str(path))] == []


def test_imports_are_found_in_every_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "resctrl_hooks/__init__.py": "",
        "resctrl_hooks/room/__init__.py": "",
        "resctrl_hooks/room/a.py": "from . import b\ndef late():\n    from ..c import thing\n",
        "resctrl_hooks/room/b.py": "import os\n",
        "resctrl_hooks/c.py": "",
        "tests/test_it.py": "if True:\n    import resctrl_hooks.room.a\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(changed, "PROJECT", tmp_path)
    monkeypatch.setattr(changed, "imported", changed.imported.__wrapped__)  # without the imports of this project
    found = changed.reached("tests/test_it.py")
    assert {"resctrl_hooks/room/a.py", "resctrl_hooks/room/b.py", "resctrl_hooks/c.py"} <= found


def test_changed_option_selects_tests(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(changed, "changes", lambda _revision: {"tests/project/test_changed.py"})
    monkeypatch.setattr(pytestconfig.option, "changed", "main")
    items = list(request.session.items)
    changed.pytest_collection_modifyitems(pytestconfig, items)
    assert {item.path.name for item in items} == {"test_changed.py"}


def test_unknown_revision_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.UsageError, match="--changed: git says"):
        changed.changes("no-such-revision")
