"""Groups of this project that another program renames: they stay the pod's, and end with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosts.cluster import POD, Cluster, pod_number

from resctrl_hooks.core.node.resctrl import mounts
from resctrl_hooks.core.node.resctrl.counter_totals import read_counters

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)
OTHER = pod_number(7)


class Node(Cluster):
    """A node with a container in the class gold, whose group a pass of reconcile has seen."""

    def __init__(self, root: Path, **config: str) -> None:
        super().__init__(root, rmids=8, **config)
        (self.host.resctrl / "mon_data").mkdir()  # a mount is known by its time, too
        self.add_classes("gold", "silver")
        self.container, self.pid = self.start(1, POD, "gold")
        self.quiet_pass()

    def quiet_pass(self) -> None:
        self.kernel.now += 60
        report = self.reconcile()
        assert report.ok, report.as_text()

    def path(self, rdt_class: str, name: str = POD) -> str:
        return "/".join(part for part in (str(self.host.resctrl), rdt_class, "mon_groups", name) if part)

    def move(self, old: str, new: str, name: str = POD, new_name: str = POD) -> None:
        """Another program renames a group."""
        self.kernel.rename(self.path(old, name), self.path(new, new_name))

    def end_of_pod(self) -> set[tuple[str, str]]:
        """End the pod and return the groups that are left."""
        self.end(self.container, self.pid, POD)
        for _ in range(2):
            self.quiet_pass()
        return self.kernel.groups()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def rmid(node: Node) -> int:
    """Return the RMID of the group that has the container."""
    rdt_class, name = next(iter(node.groups_of(node.pid)))
    return node.kernel.model.classes.get(rdt_class, node.kernel.model.root).monitored[name].rmid


@pytest.mark.parametrize(
    "places, expected",
    [
        ([("silver", POD)], ("silver", POD)),
        ([("", POD)], ("", POD)),
        ([("gold", "batch")], ("gold", POD)),
        ([("silver", "batch")], ("silver", POD)),
        ([("silver", POD), ("gold", POD)], ("gold", POD)),
        ([("silver", OTHER)], ("silver", POD)),
    ],
)
def test_group_that_another_program_renames_stays_the_pods(
    node: Node, places: list[tuple[str, str]], expected: tuple[str, str]
) -> None:
    before, place = rmid(node), ("gold", POD)
    for new in places:
        node.move(place[0], new[0], place[1], new[1])
        place = new
    node.quiet_pass()
    assert node.kernel.groups() == {expected}
    assert node.groups_of(node.pid) == {expected}
    assert rmid(node) == before
    assert node.pod_record()["groups"] == {expected[0]: "created"}
    assert not node.host.log.exists() or "vanished" not in node.host.log.read_text()
    assert node.end_of_pod() == set()


@pytest.mark.parametrize("new", [("silver", POD), ("gold", "batch"), ("silver", "batch")])
def test_group_that_another_program_renames_ends_with_its_pod_before_a_pass(node: Node, new: tuple[str, str]) -> None:
    node.move("gold", new[0], POD, new[1])
    node.end(node.container, node.pid, POD)
    assert node.kernel.groups() == {new}  # its cgroup existed at the poststop
    node.quiet_pass()
    assert not node.kernel.groups()


def test_group_stays_the_pods_if_its_former_class_is_removed(node: Node) -> None:
    node.move("gold", "silver")
    node.kernel.rmdir(f"{node.host.resctrl}/gold")
    node.quiet_pass()
    assert node.pod_record()["groups"] == {"silver": "created"}
    assert node.end_of_pod() == set()


def test_group_is_known_to_the_next_container_in_its_new_class(node: Node) -> None:
    node.move("gold", "silver")
    node.start(2, POD, "silver")
    assert node.pod_record()["groups"] == {"silver": "created"}


def test_empty_group_that_another_program_renames_ends_with_its_pod(node: Node) -> None:
    node.kernel.end(node.pid)
    node.move("gold", "silver")
    node.quiet_pass()
    node.quiet_pass()
    node.end_pod()
    node.quiet_pass()
    assert not node.kernel.groups()


def test_foreign_group_in_place_of_a_removed_one_is_shared(node: Node) -> None:
    node.kernel.rmdir(node.path("gold"))
    node.kernel.mkdir(node.path("silver"))
    for tid in node.kernel.threads.threads(node.pid):
        node.kernel.write(f"{node.host.resctrl}/silver/tasks", b"%d" % tid)
    node.quiet_pass()
    assert node.pod_record()["groups"]["silver"] == "shared"
    assert node.end_of_pod() == {("silver", POD)}


def test_group_with_the_same_identity_after_a_remount_is_shared(node: Node) -> None:
    node.move("gold", "silver")  # it has the identity of the pod's former group
    for folder in ("", "mon_data"):  # the times of a new mount
        (node.host.resctrl / folder).chmod(0o755)
    node.quiet_pass()
    assert node.pod_record()["groups"]["silver"] == "shared"


def test_identities_stay_while_the_mount_cannot_be_read(node: Node) -> None:
    node.move("gold", "silver", POD, "batch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mounts, "_time_of", lambda folder: "")
        node.reconcile()
    node.quiet_pass()
    assert ("silver", "batch") not in node.kernel.groups()
    assert node.end_of_pod() == set()


def test_renamed_group_whose_name_another_program_uses_is_removed(node: Node) -> None:
    node.move("gold", "gold", POD, "batch")
    node.kernel.mkdir(node.path("gold"))
    assert node.end_of_pod() == {("gold", POD)}


def test_renamed_group_beside_another_one_of_its_pod_is_removed(node: Node) -> None:
    node.start(2, POD, "silver")
    node.quiet_pass()
    node.move("gold", "silver", POD, "batch")
    node.quiet_pass()
    assert node.kernel.groups() == {("silver", POD)}
    assert node.groups_of(node.pid) == {("silver", POD)}
    assert node.end_of_pod() == {("silver", POD)}  # of the second container


@pytest.mark.parametrize("waits", [False, True])
def test_group_that_is_renamed_while_it_is_removed_is_not_lost(
    node: Node, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    other, pid = node.start(2, POD, "silver")
    node.quiet_pass()
    node.kernel.end(node.pid)
    remove = node.kernel.rmdir
    renamed: list[str] = []

    def rename_first(path: str) -> None:
        if path == node.path("gold") and not renamed:
            renamed.append(path)
            node.move("gold", "gold", POD, "batch")
        remove(path)

    monkeypatch.setattr(node.kernel, "rmdir", rename_first)
    if waits:
        node.context().ledger.mark("waiting", OTHER)
    else:
        node.end(other, pid, POD)
    for _ in range(2):
        node.quiet_pass()
    assert renamed
    assert ("gold", "batch") not in node.kernel.groups()


def test_exchanged_groups_of_a_pod_stay_the_pods(node: Node) -> None:
    node.start(2, POD, "silver")
    node.quiet_pass()
    node.move("gold", "", POD, "between")
    node.move("silver", "gold")
    node.move("", "silver", "between")
    node.quiet_pass()
    assert node.pod_record()["groups"] == {"gold": "created", "silver": "created"}
    assert node.kernel.groups() == {("gold", POD), ("silver", POD)}


@pytest.mark.parametrize("exists", [False, True])
def test_group_with_the_name_of_another_pod_stays_its_pods(node: Node, exists: bool) -> None:
    other = node.start(2, OTHER, "silver")[1] if exists else 0
    node.quiet_pass()
    if exists:
        node.kernel.rmdir(node.path("silver", OTHER))
    node.move("gold", "silver", POD, OTHER)
    node.quiet_pass()
    assert node.groups_of(node.pid) == {("silver", POD)}
    if exists:
        assert node.groups_of(other) == {("silver", OTHER)}
        assert node.kernel.groups() == {("silver", POD), ("silver", OTHER)}
    assert ("silver", POD) not in node.end_of_pod()


def test_reader_with_another_prefix_finds_a_moved_group_before_its_first_read(node: Node) -> None:
    node.move("gold", "silver")
    node.configure(groupPrefix="rh-")
    found = read_counters(node.context().monitor)
    assert found.found[POD]["silver"][0] == node.pod_record()["identities"]["gold"].partition(" ")[0]


def test_group_that_another_program_renames_gets_the_present_prefix(node: Node) -> None:
    node.move("gold", "silver")
    node.configure(groupPrefix="rh-")
    node.quiet_pass()
    assert node.kernel.groups() == {("silver", f"rh-{POD}")}
    assert node.end_of_pod() == set()


def test_record_that_an_earlier_version_wrote_gets_identities(node: Node) -> None:
    context = node.context()
    with context.monitor.hold(POD) as locked:
        del locked.record["identities"]
        locked.save()
    node.quiet_pass()
    assert node.pod_record()["identities"].keys() == {"gold"}
    before = (node.host.state / f"pods/{POD}/pod").stat().st_ino
    node.quiet_pass()
    assert (node.host.state / f"pods/{POD}/pod").stat().st_ino == before  # it is not written again
