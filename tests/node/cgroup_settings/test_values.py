"""Which cgroups a value is written to."""

from pathlib import Path

from resctrl_hooks.node.host.cgroup import Leaf, folders_for


def test_value_is_written_to_scope_and_to_crun_cgroup_below(tmp_path: Path) -> None:
    leaf = Leaf(str(tmp_path), "/kubepods.slice/crio-a.scope/container")
    scope, container = Path(leaf.scope), Path(leaf.folder)
    container.mkdir(parents=True)
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(container)], (
        "where neither has the file, its own says why"
    )
    (scope / "io.max").touch()
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(scope)], "the controller may not be enabled below"
    (container / "io.max").touch()
    assert folders_for("io.max", leaf.folder, leaf.scope) == [str(scope), str(container)]


def test_value_is_written_only_to_own_cgroup_of_container(tmp_path: Path) -> None:
    for path in ("/kubepods/pod1/a", "/kubepods.slice/crio-a.scope", "/system.slice/x.service/libpod-payload-a"):
        leaf = Leaf(str(tmp_path), path)
        for folder in {leaf.folder, leaf.folder.rpartition("/")[0]}:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "io.max").touch()
        assert folders_for("io.max", leaf.folder, leaf.scope) == [leaf.folder]
