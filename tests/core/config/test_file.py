"""Configuration files on disk: those of the NRI plugins, their trust, and `config check`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml
from conftest import FIXTURES

from resctrl_hooks.core.config.check import check_file, check_text, trust_problems
from resctrl_hooks.core.config.problems import InvalidConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["nri-resctrl-mon.yaml", "nri-memtierd.yaml"])
def test_files_of_nri_plugins_are_valid(name: str) -> None:
    checked = check_text((FIXTURES / name).read_bytes(), name)
    assert checked.errors == []
    assert (
        yaml.safe_load((FIXTURES / name).read_text()).keys()
        == checked.valid().model_dump(by_alias=True, exclude_unset=True).keys()
    )


def test_memory_qos_file_is_valid() -> None:
    found = check_file(str(FIXTURES / "nri-memory-qos.yaml"))
    assert [(note.key, note.what) for note in found.remarks if note.severity == "note"] == [
        ("unifiedannotations", "this is read as unifiedAnnotations")
    ]
    assert [one.swaplimitratio for one in found.valid().classes] == [0.5, 0.25]
    assert found.valid().unified_annotations == ["memory.high", "memory.oom.group"]


WRITABLE, FOREIGN = "is writable by users other than its owner", "belongs to user 1234"


@pytest.mark.parametrize(
    "mode, of_folder, told",
    [
        (0o644, 0o755, []),
        (0o644, 0o1777, []),
        (0o664, 0o755, [f"{WRITABLE} (mode 0664)"]),
        (0o646, 0o755, [f"{WRITABLE} (mode 0646)"]),
        (0o644, 0o777, [f"its directory {WRITABLE} (mode 0777)"]),
        (0o1666, 0o775, [f"{WRITABLE} (mode 1666)", f"its directory {WRITABLE} (mode 0775)"]),
        (None, 0o757, [f"its directory {WRITABLE} (mode 0757)"]),
    ],
)
def test_file_that_others_can_change_is_reported(
    tmp_path: Path, mode: int | None, of_folder: int, told: list[str]
) -> None:
    path = tmp_path / "config.yaml"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    tmp_path.chmod(of_folder)
    found = trust_problems(str(path))
    assert [problem.what for problem in found] == told
    assert {(problem.file, problem.severity) for problem in found} <= {(str(path), "warning")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    "user, of_folder, told",
    [
        (0, 0, []),
        (4321, 4321, []),
        (1234, 4321, [FOREIGN]),
        (0, 1234, [f"its directory {FOREIGN}"]),
    ],
)
def test_file_of_another_user_than_root_and_the_caller_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, of_folder: int, told: list[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.touch(0o644)
    os.chown(path, user, user)
    os.chown(tmp_path, of_folder, of_folder)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert [problem.what.partition(",")[0] for problem in trust_problems(str(path))] == told


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    assert "No such file or directory; create it, or" in str(check_file(str(tmp_path / "no")).errors[0])
    assert str(check_file(str(tmp_path)).errors[0]).endswith("not a regular file")
    with pytest.raises(InvalidConfigError, match="No such file"):
        check_file(str(tmp_path / "no")).valid()
