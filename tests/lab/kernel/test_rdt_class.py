"""RDT classes on the real resctrl: declared, applied, joined before the process runs, and its group in them."""

import json
from pathlib import Path

import pytest

from kernel.containers import Containers
from kernel.groups import Place, Resctrl, place_of
from kernel.installed import Installed, resctrl_hook
from kernel.runtimes import Failed

OURS = "class.rdt.resctrl-hooks.io"
CLASSES = {"gold": {"L3": "ff", "MB": 50}, "silver": {"L3": {"0": "f"}}}


@pytest.fixture
def installed(tmp_path: Path, resctrl: Resctrl) -> Installed:
    del resctrl
    made = Installed(
        str(tmp_path / "installed"),
        rdt={"enabled": True, "allow": {"": ["gold"]}, "classes": CLASSES, "failurePolicy": "fail"},
    )
    command(made, "apply")
    return made


def command(installed: Installed, *words: str) -> list[dict[str, object]]:
    done = resctrl_hook("--config", installed.config, "rdt", *words, "--json")
    assert done.stdout, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)["items"]
    return found


@pytest.mark.guest(cpus=2)  # one for each of two L3 domains
def test_declared_classes_match_declaration(installed: Installed, resctrl: Resctrl) -> None:
    assert [report["state"] for report in command(installed, "show")] == ["not declared", "as declared", "as declared"]
    text = Path(resctrl.path("gold"), "schemata").read_text()
    assert "MB:0=50;1=50" in text.replace(" ", "")
    assert [report["done"] for report in command(installed, "apply")] == [[], []]
    installed.configure(rdt={"classes": {"gold": {"L3": "5"}}})
    (report,) = command(installed, "apply")
    assert report["state"] == "impossible"
    assert "gaps" in str(report["problems"])


def test_class_is_joined_before_group(containers: Containers, installed: Installed, resctrl: Resctrl) -> None:
    pid = containers.create("c1", annotations={OURS: "gold"})
    (key,) = [path.name for path in Path(resctrl.path("gold"), "mon_groups").iterdir()]
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert {place_of(thread) for thread in threads} == {Place("gold", key)}, installed.said()
    assert len(threads) > (containers.runtime.name == "runc")
    containers.runtime.start("c1")
    assert place_of(pid) == Place("gold", key)


def test_forbidden_class_is_refused(containers: Containers, installed: Installed) -> None:
    with pytest.raises(Failed):
        containers.create("c2", annotations={OURS: "silver"})
    assert "is not allowed to use RDT class 'silver'" in installed.said()


def test_class_removed_under_running_container_is_reported(
    containers: Containers, installed: Installed, resctrl: Resctrl
) -> None:
    pid = containers.start("c3", annotations={OURS: "gold"})
    Path(resctrl.path("gold")).rmdir()
    assert place_of(pid).rdt_class == ""
    done = installed.reconcile("--json", check=False)
    assert done.returncode == 1
    assert "gold was removed; the container runs in the root class" in done.stdout
    command(installed, "apply")
    installed.reconcile(check=False)
    installed.reconcile()
    place = place_of(pid)
    assert place.rdt_class == "gold"
    assert place.group
