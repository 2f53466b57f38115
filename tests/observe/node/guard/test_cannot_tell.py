"""A read of the guard that fails says nothing: neither that a value is gone, nor that it is another's."""

import errno
from typing import Any

import pytest
from conftest import Host
from hosts.faults import failing
from hosts.no_answer import answer, no_answer

from observe.node.guard.node import FULL, Node
from resctrl_hooks.core.node.resctrl.filesystem import Filesystem
from resctrl_hooks.observe.node.guard import lease
from resctrl_hooks.observe.node.guard.lease import NAME

__all__ = ("answer", "no_answer")
GUARD: dict[str, tuple[Any, str]] = {
    "counters and schemata": (Filesystem, "read"),
    "classes and groups": (Filesystem, "listdir"),
    "folders": (Filesystem, "is_folder"),
    "inodes of groups": ("posix", "scandir"),
    "lease": (lease, "write_file"),
}
"""Operations of a guard that samples: each one's owner and name."""


@pytest.mark.parametrize("operation", GUARD.values(), ids=GUARD)
def test_guard_holds_a_cut_while_it_cannot_read(host: Host, operation: tuple[Any, str], no_answer: OSError) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    assert node.limit("bronze") == "MB:0=90"
    with failing(*operation, no_answer):
        node.pass_time(guard, FULL, 2)
    assert node.limit("bronze") == "MB:0=90"
    assert (host.state / NAME).exists()
    assert not any("another program" in line for line in node.lines)
    node.pass_time(guard, FULL, 60)
    assert node.limit("bronze") == "MB:0=20"
    assert guard.end()
    assert node.limit("bronze") == "MB:0=100"
    assert not (host.state / NAME).exists()


@pytest.mark.parametrize("operation", [GUARD[name] for name in ("counters and schemata", "classes and groups")])
def test_guard_restores_all_values_if_it_cannot_read_for_long(host: Host, operation: tuple[Any, str]) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    schemata = node.root / "bronze/schemata"

    def counters(_: Any, path: str) -> bool:
        return path != str(schemata)

    with failing(*operation, OSError(errno.EIO, "no answer"), when=counters):
        node.pass_time(guard, FULL, 20)
    assert node.limit("bronze") == "MB:0=100"


@pytest.mark.parametrize("ending", ["", "schemata", "mbm_total_bytes"], ids=["all", "schemata", "counters"])
def test_guard_holds_a_cut_for_an_answer_without_meaning(host: Host, ending: str, answer: bytes) -> None:
    node = Node(host)
    guard = node.guard()
    node.pass_time(guard, FULL, 6)
    read = Filesystem.read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filesystem, "read", lambda fs, path: answer if path.endswith(ending) else read(fs, path))
        node.pass_time(guard, FULL, 2)
        if ending == "schemata":
            assert not guard.end()
    assert node.limit("bronze") == "MB:0=90"
    assert (host.state / NAME).exists()
    node.pass_time(guard, FULL, 60)
    assert node.limit("bronze") == "MB:0=20"
    assert guard.end()
    assert node.limit("bronze") == "MB:0=100"
