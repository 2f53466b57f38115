"""The presentation of placement: a container's details, the target of a step for `explain`, and cells of `list`."""

from pathlib import Path

import pytest
from conftest import Host
from hosts.displays import cells, described, probed

from resctrl_hooks.core.inventory.feature_display.model import Found
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.placement.inventory.feature_display import placement


def test_impossible_placement_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise HookError("no CPU is free")

    monkeypatch.setattr(placement, "preview", fails)
    assert probed("placement", host, {}) == Found("", "would fail: no CPU is free", possible=False)


@pytest.mark.parametrize(
    "files, effective",
    [({}, {}), ({"a/b": "0-1", "a": "0-3"}, {"effective": "0-1"}), ({"a": "0-3"}, {"effective": "0-3"})],
)
def test_effective_cpus_are_those_of_the_cgroup_or_its_scope(
    tmp_path: Path, files: dict[str, str], effective: dict[str, str]
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for folder, text in files.items():
        (tmp_path / folder / "cpuset.cpus.effective").write_text(f"{text}\n")
    needs = {"decision": {"kind": "shared", "pool": "l3-0", "milli": 500}}
    found = described("placement", {"cgroup": str(tmp_path / "a/b")}, needs)
    assert found == {"kind": "shared", "pool": "l3-0"} | effective
    assert described("placement", {}, needs) == {"kind": "shared", "pool": "l3-0"}


def test_cells_of_placement_are_those_of_placed_containers() -> None:
    one, two = ({"placement": {"kind": "shared", "pool": "l3-0", "effective": cpus}} for cpus in ("0-3", "2-5"))
    assert cells("placement", one, {}, two) == ("shared l3-0", "0-5")
    assert cells("placement", one, {"placement": {"why": "not placed yet"}}) == ("not yet, shared l3-0", "0-3")
    assert cells("placement", {"placement": {"why": "not placed yet"}}) == ("not yet", "-")
