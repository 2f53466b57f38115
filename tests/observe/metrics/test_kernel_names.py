"""Groups and classes whose names are no text: every output is valid UTF-8, and their names stay distinct."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say
from hosts.monitored import MonitoredHost, plain_host

from observe.metrics.conftest import scraped
from resctrl_hooks.core.inventory.podman import podman_names
from resctrl_hooks.core.node.container.names import stored_names
from resctrl_hooks.core.node.names import name_text
from resctrl_hooks.observe.recording.files import read

TEXTS = {
    b"\xff": r"\xff",
    b"\xfe": r"\xfe",
    rb"\xff": r"\\xff",
    b"\xed\xa0\x80": r"\xed\xa0\x80",
    b"a\nb": r"a\x0ab",
    b"\x1b[2J": r"\x1b[2J",
    b"half\xc3": r"half\xc3",
    "café".encode(): "café",
    "a\u2028b".encode(): r"a\xe2\x80\xa8b",
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a pod beside groups and classes with all of these names."""
    with plain_host(tmp_path, "info") as found:
        say(found.resctrl, llc_occupancy=900, mbm_total_bytes=10_000)
        found.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=1_000)
        for name in map(os.fsdecode, TEXTS):
            for folder in (f"mon_groups/{name}", name, f"{name}/mon_groups/{name}"):
                say(found.resctrl / folder, llc_occupancy=1, mbm_total_bytes=10)
                (found.resctrl / folder / "tasks").write_text("")
        yield found


@pytest.mark.parametrize("name, text", TEXTS.items())
def test_kernel_name_has_a_text_of_its_own(name: bytes, text: str) -> None:
    assert name_text(os.fsdecode(name)) == text


def test_metrics_have_each_group_whose_name_is_no_text(host: MonitoredHost, tmp_path: Path) -> None:
    found = [one.labels for one in scraped(host) if one.name.startswith("resctrl_foreign_")]
    assert {one["group"] for one in found if not one["rdt_class"]} == {*TEXTS.values()}
    file = tmp_path / "node.prom"
    assert host.run("metrics", "--output", str(file)).exit_code == 0
    assert 'group="\\\\xff"' in file.read_text("utf-8")


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_recording_is_complete_beside_groups_whose_names_are_no_text(
    host: MonitoredHost, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    done = host.run("record", "--for", "0.3s", "--interval", "0.1s", "-o", str(file))
    assert done.exit_code == 0, done.output
    rows = read(str(file))
    assert {row["key"] for row in rows if row["kind"] == "group" and not row["rdt_class"]} == {*TEXTS.values()}
    assert host.run("report", str(file), "-o", str(tmp_path / "page.html")).exit_code == 0


def test_foreign_group_whose_name_is_no_text_is_the_same_in_list_and_metrics(host: MonitoredHost) -> None:
    document = host.json("list")
    names = {group["name"] for group in document["foreignGroups"] if not group["rdtClass"]}
    assert names == {*TEXTS.values()}
    assert "\\udc" not in json.dumps(document)


def test_names_from_podman_are_text(tmp_path: Path) -> None:
    id_ = "a" * 64
    (tmp_path / "containers.json").write_text(json.dumps([{"id": id_, "names": ["web\udcff"]}]))
    assert stored_names({id_: f"{tmp_path}/{id_}/userdata"}) == {id_: "web?"}
    assert podman_names(("printf", r"id\tweb\377\t\t\n")).containers == {"id": "web\ufffd"}
