"""Where resctrl isn't mounted, its folder is there all the same and empty: no command may take that for resctrl."""

import json
from pathlib import Path

import pytest
from conftest import Host
from hosts import crun
from hosts.commands import here
from hosts.monitored import run

WORDS = (
    "resctrl is not mounted at {path}; mount it: mount -t resctrl resctrl {path}; run `resctrl-hook doctor` for details"
)


@pytest.fixture
def unmounted(tmp_path: Path) -> Host:
    folder = tmp_path / "mnt"
    folder.mkdir()
    return Host(tmp_path, resctrl=folder, runtimeRoots={"all": str(tmp_path / "runtime")})


@pytest.mark.parametrize("words", here("list", "list --json", "top --once --interval 0.1", "metrics", "rdt show"))
def test_missing_mount_is_reported_with_configured_path(unmounted: Host, words: str) -> None:
    done = run(unmounted, *words.split())
    assert done.exit_code == 1
    text = done.stderr if "--json" not in words else json.loads(done.stdout)["problem"]
    said = text.removeprefix("resctrl-hook: ").replace(" (ENOENT)", "").rstrip("\n")
    assert said.replace(f"--config {unmounted.config} ", "") == WORDS.format(path=unmounted.resctrl)


@pytest.mark.parametrize("dry", [["--dry-run"], []], ids=["dry", "real"])
def test_reconcile_adopts_nothing(unmounted: Host, dry: list[str]) -> None:
    for number in range(3):
        unmounted.process(100 + number, start=1000)
        bundle = unmounted.bundle(name=f"bundle{number}")
        crun.record(unmounted.root / "runtime", f"{number:064x}", 100 + number, bundle, 1000)
    done = run(unmounted, "reconcile", "--json", *dry)
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (report["containers"], report["threadsMoved"], report["items"]) == (3, 0, [])
    assert report["problems"] == [WORDS.format(path=unmounted.resctrl)]
