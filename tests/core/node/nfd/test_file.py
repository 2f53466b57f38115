"""The file for node-feature-discovery: only proved facts, fresh while reconcile runs, never half-written."""

import datetime as dt
import errno
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import examples, raising
from hosts.node_features import labels
from hosts.shared_node import SharedNode
from hosts.simulated_kernel import Layout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.nfd import features, file
from resctrl_hooks.core.node.nfd.file import LIFETIME, renew
from resctrl_hooks.core.node.nfd.proof import CLASS
from resctrl_hooks.core.node.reconcile import command
from resctrl_hooks.core.node.resctrl.rmids import total_closids, total_rmids

HOUSES = ("lab",)
KINDS: dict[str, dict[str, Any]] = {
    "Intel": {},
    "AMD": {"assignable_counters": 4},
    "Arm": {"pmg": 4},
    "memory": {"pmg": 4, "assignable_counters": 1, "layout": Layout("MB", "0-1,10", "MB_MIN:0=40;1=40;10=40")},
}
NAME = "resctrl-hooks"


class Node(SharedNode):
    """A node with the file that `install --nfd` creates."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **{"rmids": 16, "limbo": 0, **options})
        self.folder = root / "features.d"
        self.folder.mkdir()
        self.file = self.folder / NAME
        self.file.write_text(features.FIRST)
        self.kernel.show_counters()

    def renew(self) -> dict[str, str]:
        """Renew the file; return the labels without their prefix."""
        context = self.context()
        context.settings.node_features_path = str(self.file)
        context.ledger.prepare()
        renew(context)
        return {key.removeprefix(features.PREFIX): value for key, value in labels(self.folder).items()}

    def grow_old(self, seconds: int) -> None:
        """Make the file older."""
        then = self.file.stat().st_mtime - seconds
        os.utime(self.file, (then, then))


@pytest.mark.parametrize("kind", KINDS)
def test_proved_facts_become_labels(tmp_path: Path, kind: str) -> None:
    node = Node(tmp_path, **KINDS[kind])
    before = os.umask(0o077)  # of reconcile's unit
    try:
        found = node.renew()
    finally:
        os.umask(before)
    assert node.file.stat().st_mode & 0o777 == 0o644, "every user can read it"
    resctrl = node.context().monitor.resctrl
    data = Path(resctrl.root, "mon_data")
    counted = len([*data.glob("*/mbm_total_bytes")])
    yes = {"monitoring", "allocation", "allocation.L3", "allocation.MB", *(["bandwidth"] if counted else [])}
    assert {key for key, value in found.items() if value == "true"} == yes
    numbers = {"rmids": total_rmids(resctrl), "closids": total_closids(resctrl), "domains": counted}
    assert {key: int(found.get(key, 0)) for key in numbers} == numbers
    assert bool(counted) == (kind != "Arm")
    assert resctrl.classes() == []


def test_proof_writes_managed_resources_only_and_needs_their_new_values(tmp_path: Path, monkeypatch: Any) -> None:
    node = Node(tmp_path, **KINDS["memory"])
    written: list[bytes] = []
    kept = node.kernel.write

    def write(path: str, value: bytes) -> None:
        written.append(value)
        kept(path, value)

    monkeypatch.setattr(node.kernel, "write", write)
    node.renew()
    assert {value.partition(b":")[0] for value in written} == {b"L3", b"MB"}
    unchanged = Node(tmp_path / "unchanged")
    write_there = unchanged.kernel.write
    monkeypatch.setattr(unchanged.kernel, "write", lambda path, value: "schemata" in path or write_there(path, value))
    found = unchanged.renew()
    assert "monitoring" in found
    assert not [key for key in found if key.startswith("allocation")]


def test_file_without_modules_for_it_is_named_once_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load_function", raising(ModuleNotFoundError("no")))
    logged: list[str] = []
    context = Node(tmp_path).context()
    monkeypatch.setattr(context, "log", lambda _, text, **more: logged.append(text))
    command._renew_features(context)
    assert logged == [f"cannot update {context.settings.node_features_path}: run `resctrl-hook install --nfd`"]


PASS, HALF, WHOLE = 10, LIFETIME // 2 + 1, LIFETIME + 1


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from([PASS, HALF, WHOLE]), st.booleans(), st.booleans()), max_size=6))
def test_fact_stays_until_its_lifetime_ends_and_is_proved_again_after_half_of_it(
    tmp_path_factory: pytest.TempPathFactory, passes: list[tuple[int, bool, bool]]
) -> None:
    """In some passes one fact is not proved, before some the node boots."""
    node = Node(tmp_path_factory.mktemp("node"))
    known = everything = node.renew()
    assert "bandwidth" in known
    less = {key: value for key, value in everything.items() if key != "bandwidth"}
    age = 0
    for seconds, lacks, boots in passes:
        node.grow_old(seconds)
        age += seconds
        if boots:
            node.file.write_text(node.file.read_text().replace("# boot ", "# boot another-"))
        proof = Mock(return_value=less if lacks else everything)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file, "prove", proof)
            found = node.renew()
        due = boots or age >= LIFETIME / 2
        assert proof.called == due
        if due and (boots or age >= LIFETIME or not lacks or "bandwidth" not in known):
            known, age = (less if lacks else everything), 0
        assert found == known
        assert labels(node.folder, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=WHOLE)) == {}


def test_full_node_keeps_its_proof_of_allocation_and_loses_no_rmid(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=6)
    before = node.renew()
    for _ in range(6):
        node.start("shop")
    groups, waiting = node.kernel.groups(), node.waiting()
    assert waiting
    node.grow_old(LIFETIME)
    assert node.renew() == before
    assert (node.kernel.groups(), node.waiting()) == (groups, waiting)


def test_unfinished_file_is_hidden_and_the_old_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)
    before = node.renew()
    node.grow_old(LIFETIME // 2 + 1)
    seen: list[str] = []

    def rename(old: str, new: str) -> None:
        seen.extend(sorted(os.listdir(node.folder)))
        raise OSError(errno.EROFS, "Read-only file system", new)

    monkeypatch.setattr(file.posix, "rename", rename)  # type: ignore[attr-defined]
    monkeypatch.setattr(file, "write_file", lambda path, data: Path(path).write_bytes(data))
    assert node.renew() == before
    assert seen == [f".{NAME}", NAME]
    assert os.listdir(node.folder) == [NAME]
    assert "cannot update" in node.host.log.read_text()


def test_reconcile_renews_the_file_but_not_in_a_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)
    root = node.context().monitor.resctrl.root
    node.kernel.mkdir(f"{root}/{CLASS}")  # of a killed proof
    assert "allocation" in node.renew()
    assert not Path(root, CLASS).exists()
    node.host.configure(nodeFeaturesPath=str(node.file))
    renewed: list[str] = []
    monkeypatch.setattr(file, "renew", lambda context: renewed.append(context.settings.node_features_path))
    assert command.reconcile_command(str(node.host.config), ["--dry-run"]) == 0
    assert renewed == []
    assert command.reconcile_command(str(node.host.config), []) == 0
    assert renewed == [str(node.file)]
    monkeypatch.undo()
    node.file.unlink()
    command.reconcile_command(str(node.host.config), [])
    assert not node.file.exists(), "only the administrator creates it"
