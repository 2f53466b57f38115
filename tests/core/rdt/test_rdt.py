"""`rdt apply` and `rdt show` on the simulated resctrl, which refuses as the kernel does."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from golden import Golden
from hosts.monitored import plain_host
from hosts.transcript import Transcript

from core.rdt.conftest import RdtHost
from resctrl_hooks.core.node.errors import ResctrlError
from resctrl_hooks.core.node.resctrl.bandwidth_unit import AMD, MB_PER_SECOND, PER_CENT, bounds_of, unit_of
from resctrl_hooks.core.rdt.capabilities import BandwidthCapability, CacheCapability, Capabilities, read_abilities
from resctrl_hooks.core.rdt.config import desired_schemata, differences, lines
from resctrl_hooks.core.rdt.ways import mask_of
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)
CAN = Capabilities(
    {"L3": CacheCapability(0xFFF, 2, gaps=False)},
    {"MB": BandwidthCapability(10, 10, 100)},
    {"L3": [0, 1], "MB": [0, 1]},
    8,
)
MBPS = Capabilities(
    {}, {"MB": BandwidthCapability(*bounds_of(MB_PER_SECOND, 10, 10), MB_PER_SECOND, 10)}, {"MB": [0]}, 8
)
AMD_MB = Capabilities({}, {"MB": BandwidthCapability(0, 1, 0, AMD)}, {"MB": [0]}, 8)
SPARSE = Capabilities({"L3": CacheCapability(0xFFF, 1, gaps=True)}, {}, {"L3": [0]}, 8)


MACHINES = {"per cent": CAN, "MBps": MBPS, "AMD": AMD_MB, "sparse": SPARSE}
DECLARED: dict[str, list[dict[str, Any]]] = {
    "per cent": [
        *({"L3": mask} for mask in ("ff", "100%", "50%", "60%", "1%", "9%", "50-99%", "51-100%", "0-49%")),
        *({"L3": mask} for mask in ("1fff", "1", "505", {"1": "f0"}, {"1": "505"}, {"2": "ff"})),
        *({"MB": value} for value in (41, 5, 101, "41%", "2000MBps", ["2000MBps", "50%"], {"0": 50, "2": 50})),
        {"MB": {0: 100}, "L3": "0ff"}, {"L2": "ff"}, {"L3": "505", "L2": "f"}, {"L3": "ff", "L2": "f"},
        {"SMBA": 5, "MB": 50}, {"L3CODE": "f", "L3DATA": "f0"},
    ],
    "MBps": [
        *({"MB": value} for value in (["50%", "2000MBps"], "2GBps", 4294967295, 4294967296, "4294968GBps", 2005, 7, 1)),
        *({"MB": value} for value in ("2005MBps", {"0": ["7%", "1234MBps"]})), {"L3": "60%", "MB": 50},
    ],
    "AMD": [{"MB": value} for value in ("2000MBps", "2010MBps", 2048, "50%")],
    "sparse": [{"L3": "505"}, {"L3": "f", "MB": 10, "exclusive": True}],
}  # fmt: skip


def test_declaration_gives_schemata_or_problems_and_an_optional_one_what_the_node_has(golden: Golden) -> None:
    for name, specs in DECLARED.items():
        found = []
        for spec in specs:
            (desired, problems), (least, left) = (
                desired_schemata(one, MACHINES[name]) for one in (spec, spec | {"optional": True})
            )
            found.append(f"{json.dumps(spec)} => {'; '.join([*lines(desired), *problems])}")
            if problems:
                found.append(f"    optional: {'; '.join([*lines(least), *left])}")
        golden("\n".join(found), name)


@pytest.mark.parametrize(
    "least, values, mbps, unit",
    [
        (10, [100, 50], False, PER_CENT),
        (10, [4294967295], False, MB_PER_SECOND),
        (10, [80], True, MB_PER_SECOND),
        (0, [2048], False, AMD),
        (0, [16], False, AMD),
    ],
)
def test_unit_of_mount_is_recognized(least: int, values: list[int], *, mbps: bool, unit: str) -> None:
    assert unit_of(least, values, mbps=mbps) == unit


@pytest.mark.parametrize("value, now, same", [("2005", "2005", True), ("2005", "2010", True), ("2005", "2020", False)])
def test_value_in_mbps_that_an_older_kernel_has_rounded_is_no_difference(value: str, now: str, *, same: bool) -> None:
    found = differences({"MB": {0: value}}, {"MB": {0: now}}, roundings={"MB": 10})
    assert (found == []) == same


@pytest.mark.parametrize("minimum", [1, 2])
@pytest.mark.parametrize("ways", [8, 11, *(pytest.param(one, marks=pytest.mark.ci) for one in (12, 20))])
def test_percentages_are_goresctrls(ways: int, minimum: int) -> None:
    can = CacheCapability((1 << ways) - 1, minimum, gaps=False)
    for first in range(101):
        for last in range(max(first, 1), 101):
            assert mask_of(f"{first}-{last}%", can, can.full) == (documented(first, last, ways, minimum), "")
        if first:
            assert mask_of(f"{first}%", can, can.full) == mask_of(f"0-{first}%", can, can.full)


def documented(first: int, last: int, ways: int, minimum: int) -> int:
    """Return the mask of a range, way by way.

    Per cent p of 1 to 100 begins in the way that contains (p - 1) / 100 of the cache. A range has the ways of all its
    per cents. Then it grows to the minimum, first at the lower end.
    """
    having = {
        way
        for way in range(ways)
        for per_cent in range(max(first, 1), last + 1)
        if way * 100 <= (per_cent - 1) * ways < (way + 1) * 100
    }
    having = set(range(min(having), max(having) + 1))
    while len(having) < minimum:
        having.add(min(having) - 1 if min(having) else max(having) + 1)
    return sum(1 << way for way in having)


def write_info(root: Path, resource: str, **files: str) -> None:
    """Write files of the kernel's info folder."""
    (root / "info" / resource).mkdir(parents=True)
    for name, text in files.items():
        (root / "info" / resource / name).write_text(f"{text}\n")


def test_capabilities_are_those_of_the_info_folder(tmp_path: Path) -> None:
    (tmp_path / "schemata").write_text("MB:0=100;1=100\nL3:1=fffff;0=fffff\nL2:0=ff\nSMBA:0=2048\nX:0=1\n")
    write_info(tmp_path, "L3", num_closids="16", cbm_mask="fffff", min_cbm_bits="2", shareable_bits="c0000")
    write_info(tmp_path, "L2", num_closids="8", cbm_mask="ff", sparse_masks="1")
    write_info(tmp_path, "MB", num_closids="unknown", min_bandwidth="10", bandwidth_gran="5")
    write_info(tmp_path, "SMBA", min_bandwidth="0")
    assert read_abilities(str(tmp_path)) == Capabilities(
        {"L3": CacheCapability(0xFFFFF, 2, gaps=False, shareable=0xC0000), "L2": CacheCapability(0xFF, 1, gaps=True)},
        {"MB": BandwidthCapability(10, 5, 100), "SMBA": BandwidthCapability(0, 1, 0, AMD)},
        {"MB": [0, 1], "L3": [0, 1], "L2": [0], "SMBA": [0], "X": [0]},
        8,
    )
    assert Capabilities() == Capabilities({}, {}, {}, 0)
    for io_alloc, number in (("enabled", 7), ("disabled", 8), ("not supported", 8)):  # it uses a class
        (tmp_path / "info/L3/num_closids").write_text("8\n")
        (tmp_path / "info/L3/io_alloc").write_text(f"{io_alloc}\n")
        assert read_abilities(str(tmp_path)).classes == number
    (tmp_path / "schemata").write_text("MB:0=4294967295;1=2005\n")
    (tmp_path / "info/MB/bandwidth_gran").write_text("10\n")
    found = read_abilities(str(tmp_path)).bandwidths["MB"]
    assert found == BandwidthCapability(1, 1, 4294967295, MB_PER_SECOND, rounding=10), "not those of per cents"
    (tmp_path / "schemata").write_text("\n")
    assert read_abilities(str(tmp_path)).classes == 0


def test_missing_resctrl_is_reported(tmp_path: Path) -> None:
    with plain_host(tmp_path, rdt={"classes": {"gold": {"MB": 50}}}) as host:
        failed = host.run("rdt", "show")
    assert failed.exit_code == 1
    assert "resctrl is not mounted at" in failed.output


@pytest.mark.parametrize("folder", ["locked", "locked/mon_groups"])
@pytest.mark.parametrize(
    "mode, schemata", [("pseudo-locked", "L3:0=f"), ("pseudo-locksetup", "L3:uninitialized"), ("pseudo-locked", "")]
)
def test_pseudo_locked_class_is_shown_and_stays(tmp_path: Path, folder: str, mode: str, schemata: str) -> None:
    with plain_host(tmp_path, "info", folder, rdt={"classes": {"locked": {"L3": "ff"}}}) as host:
        write_info(host.resctrl, "L3", num_closids="4", cbm_mask="fff", min_cbm_bits="1")
        for name, text in {"schemata": "L3:0=fff", "tasks": "", "locked/tasks": ""}.items():
            (host.resctrl / name).write_text(text)
        (host.resctrl / "locked/schemata").write_text(f"{schemata}\n")
        (host.resctrl / "locked/mode").write_text(f"{mode}\n")
        shown = json.loads(host.run("rdt", "show", "--json").stdout)["items"]
        (locked,) = [one for one in shown if one["name"] == "locked"]
        assert locked["state"] == "impossible"
        assert f"its mode is {mode}" in locked["problems"][0]
        assert host.run("rdt", "apply").exit_code == 1
        assert (host.resctrl / "locked/schemata").read_text() == f"{schemata}\n"


@pytest.mark.fuse
@pytest.mark.parametrize("refused", [{"b": {"MB": 4096}}, {"/": {"MB": 2049}}, {"b": {"L3": "ff", "MB": 9999}}])
def test_apply_that_the_kernel_refuses_changes_nothing(tmp_path: Path, refused: dict[str, Any]) -> None:
    with mounted(tmp_path / "sim", vendor="amd", closids=4) as root:
        host = RdtHost(tmp_path / "host", resctrl=Path(root))
        host.apply(old={"MB": 100})
        before = [(host.resctrl / name / "schemata").read_text() for name in ("", "old")]
        host.configure(rdt={"classes": {"old": {"L3": "f", "MB": 200}, "a": {"MB": 16}, **refused}})
        failed = host.rdt("apply")
        assert failed.exit_code == 1
        assert "out of range" in failed.output
        assert [(host.resctrl / name / "schemata").read_text() for name in ("", "old")] == before
        assert not any((host.resctrl / name).exists() for name in ("a", "b"))


def own(value: str) -> dict[str, Any]:
    return {"L3": value, "exclusive": True}


DECLARATIONS: dict[str, dict[str, Any]] = {
    "two": {"/": {"L3": "ff0"}, "gold": {"L3": {"0": "f"}, "MB": 41}},
    "rates": {"gold": {"MB": ["2000MBps", "50%"]}, "odd": {"MB": {"0": 33}}},
    "gaps": {"a": {"MB": 50}, "b": {"L3": "505"}},
    "overlap": {"a": own("ff0"), "b": {"L3": "0ff"}},
    "many": {name: {"MB": 50} for name in "abcd"},
    "shares": {"gold": own("60%"), "silver": own("30%")},
    "half": {"gold": own("50%"), "batch": {"MB": 50}},
    "quarter": {"gold": own("25%"), "batch": {"MB": 50}},
    "shareable": {"gold": {"L3": "50%"}},
    "batch": {"batch": {"MB": 50}},
    "three": {"gold": {}, "silver": {}, "bronze": {}},
    "one": {"gold": {"L3": "1"}},
    "none": {},
}
LIFE = {
    "declared": "use two, show, apply --dry-run, apply, apply, show, apply --dry-run, use rates, apply --dry-run,"
    " apply, show, write odd MB:0=30, write gold MB:0=20, mkdir other, show, apply --dry-run, use none, show",
    "impossible": "use gaps, apply, use overlap, apply, use many, apply, show",
    # ways 9 and 10 of the simulated cache are shared with other hardware, as on Xeons
    "exclusive": "use shares, apply, show, use none, apply, rmdir silver, write / L3:0=7ff;1=fff, mkdir batch,"
    " write batch L3:0=fff;1=fff, use half, apply, use quarter, apply, use batch, apply, use none, apply,"
    " use half, apply, write / L3:0=f00, use shareable, apply, mkdir other, use half, apply, show, rmdir other, apply",
    "interrupted": "use half, refused, writable, apply, use none, apply",
    "refused name": "mkdir \udcff, show, use three, apply, use one, apply, rmdir gold, mkdir a\tb, show",
    "edited": "edit {gold: {L3: '003'}}, apply --dry-run, apply, show, edit {gold: {x: {}}}, apply --dry-run, apply",
}


@pytest.mark.fuse
@pytest.mark.parametrize("calls", LIFE)
def test_classes_through_their_life(
    simulated: RdtHost, tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch, calls: str
) -> None:
    """What another program has changed stays, and all other masks are restored."""

    def refuse(*_: object) -> None:
        raise ResctrlError("refused")

    full, told = simulated.l3(), Transcript()
    for number, step in enumerate(LIFE[calls].split(", ")):
        word, _, rest = step.partition(" ")
        if word == "use":
            simulated.configure(rdt={"classes": DECLARATIONS[rest]})
        elif word == "write":
            name, _, schemata = rest.partition(" ")
            (simulated.resctrl / name.strip("/") / "schemata").write_text(f"{schemata}\n")
        elif word in ("mkdir", "rmdir"):
            getattr(os, word)(simulated.resctrl / rest)
        elif word == "refused":
            with monkeypatch.context() as patch:
                patch.setattr("resctrl_hooks.core.rdt.classes.write_schemata", refuse)
                check(simulated, told, number, "apply")
        elif word == "edit":
            simulated.config = tmp_path / "config.yaml"
            where = f"resctrlPath: {simulated.resctrl}, stateDir: {simulated.state}"
            simulated.config.write_text(f"{{{where}, rdt: {{classes: {rest}}}}}")
            simulated.config.chmod(0o600)
        elif word != "writable":
            check(simulated, told, number, step)
            continue
        told.add(number, step, "")
    golden(str(told))
    assert calls != "interrupted" or simulated.l3() == full


def check(host: RdtHost, told: Transcript, number: int, words: str) -> None:
    """Add a command's output and the state of all classes."""
    done = host.rdt(*words.split())
    said = re.sub(r"(?m)( (?:shareable|exclusive|-)) +\d+", r"\1 <n>", done.output)
    folders = [path for path in sorted(host.resctrl.iterdir()) if (path / "schemata").exists() and path.name != "info"]
    for path in [host.resctrl, *folders]:
        mode, schemata = ((path / name).read_text().split() for name in ("mode", "schemata"))
        said += f"\n{path.name.encode('utf-8', 'backslashreplace').decode()} {mode[0]}: {' '.join(schemata)}"
    record = host.state / "rdt-exclusive.json"
    said += f"\n{record.read_text() if record.exists() else 'nothing to restore'}"
    told.add(number, words, said.replace(f"\n{host.resctrl.name} ", "\n/ "), done.exit_code)


@pytest.mark.fuse
def test_class_uses_an_rmid(tmp_path: Path) -> None:
    with mounted(tmp_path / "sim", rmids=2) as root:
        os.mkdir(f"{root}/mon_groups/somebody")
        refused = RdtHost(tmp_path / "host", resctrl=Path(root), rdt={"classes": {"gold": {"MB": 50}}}).rdt("apply")
        assert refused.exit_code == 1
        assert "(ENOSPC)" in refused.output
        assert "each class uses one RMID" in refused.output
