"""Classes of other programs with names that are refused here: they are counted and shown, and nothing else.

`test_life` has their groups in lists.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import always, not_none
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hosts.shared_node import SharedNode

from resctrl_hooks.core.inventory.gather import gather
from resctrl_hooks.core.node.nfd.proof import prove

HOUSES = ("lab",)
TEXTS = {b"\xff": r"\xff", b"a\tb": r"a\x09b", b"\xfe\\": r"\xfe\\", "a\u2028b".encode(): r"a\xe2\x80\xa8b"}
"""Names in the kernel, each with its text."""


@pytest.mark.parametrize("name", [os.fsdecode(name) for name in TEXTS], ids=[*TEXTS.values()])
def test_proof_leaves_the_last_closids_beside_a_class_with_a_refused_name(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = SharedNode(tmp_path, rmids=64, limbo=0)
    context = node.context()
    context.ledger.prepare()
    root = context.monitor.resctrl.root
    free = not_none(gather(context).account).closids["free"]
    for number in range(free - 1):
        node.kernel.mkdir(f"{root}/{name}{number}")
    monkeypatch.setattr(node.kernel, "mkdir", lambda path: pytest.fail(f"made {path}"))
    prove(context, {})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a pod beside classes of all names, each with a group of the pod's name."""
    with plain_host(tmp_path, "info") as found:
        say(found.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        found.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=1_000)
        for name in map(os.fsdecode, TEXTS):
            for folder in (name, f"{name}/mon_groups/{KEYS[0]}"):
                say(found.resctrl / folder, llc_occupancy=1, mbm_total_bytes=10)
                (found.resctrl / folder / "tasks").write_text("7\n8\n")
        yield found


def test_container_in_a_class_with_a_refused_name_is_shown_with_its_text(
    host: MonitoredHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.pod(1, "db")
    for name, text in TEXTS.items():
        found = (os.fsdecode(name), "")
        monkeypatch.setattr("resctrl_hooks.core.inventory.gather.groups_of_process", always(found))
        (shown,) = host.json("show", "db")["items"]
        assert shown["rdtClasses"] == ["", text]
        assert [one["rdtClass"] for one in shown["containers"]] == [text]
        assert f"class {text}\n" in host.run("show", "db").stdout
