"""`rdt apply` and `rdt show` on the simulated resctrl, which refuses as the kernel does."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import Host, raising
from golden import Golden
from hosts.monitored import plain_host, run
from hosts.transcript import Transcript

from resctrl_hooks.core.node.errors import ResctrlError
from resctrl_hooks.core.node.nfd.features import FIRST
from resctrl_hooks.core.node.nfd.file import renew
from resctrl_hooks.core.node.resctrl.bandwidth_unit import AMD, MB_PER_SECOND, bounds_of
from resctrl_hooks.core.node.resctrl.schemata import LOCK
from resctrl_hooks.core.rdt import classes
from resctrl_hooks.core.rdt.capabilities import BandwidthCapability, CacheCapability, Capabilities, read_abilities
from resctrl_hooks.core.rdt.config import desired_schemata, differences, lines
from resctrl_hooks.core.rdt.layout import lay_out
from resctrl_hooks.core.rdt.ways import mask_of
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)
CAN = Capabilities(
    {"L3": CacheCapability(0xFFF, 2, gaps=False)}, {"MB": BandwidthCapability(10, 10, 100)},
    {"L3": [0, 1], "MB": [0, 1]}, 8,
)  # fmt: skip
MBPS = Capabilities(
    {}, {"MB": BandwidthCapability(*bounds_of(MB_PER_SECOND, 10, 10), MB_PER_SECOND, 10)}, {"MB": [0]}, 8
)
AMD_MB = Capabilities({}, {"MB": BandwidthCapability(0, 1, 0, AMD)}, {"MB": [0]}, 8)
SPARSE = Capabilities({"L3": CacheCapability(0xFFF, 1, gaps=True)}, {}, {"L3": [0]}, 8)


class RdtHost(Host):
    """A host with RDT classes."""

    def rdt(self, *words: str) -> Result:
        """Run `rdt`."""
        return run(self, "rdt", *words)

    def apply(self, **classes: dict[str, Any]) -> dict[str, Any]:
        """Apply these classes alone; return the items of the result by name."""
        self.configure(rdt={"classes": classes})
        done = self.rdt("apply", "--json")
        assert done.exit_code in (0, 1), done.output
        return {item["name"]: item for item in json.loads(done.stdout)["items"]}

    def schemata(self, name: str = "") -> list[str]:
        """Return the schemata of a class."""
        return (self.resctrl / name / "schemata").read_text().split()


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[RdtHost]:
    with mounted(tmp_path / "sim", closids=4) as root:
        yield RdtHost(tmp_path / "host", resctrl=Path(root))


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


def test_value_in_mbps_that_an_older_kernel_has_rounded_is_no_difference() -> None:
    for now, same in (("2005", True), ("2010", True), ("2020", False)):
        assert (differences({"MB": {0: "2005"}}, {"MB": {0: now}}, roundings={"MB": 10}) == []) == same


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
    having = {(per_cent - 1) * ways // 100 for per_cent in range(max(first, 1), last + 1)}
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
    assert (failed.exit_code, "resctrl is not mounted at" in failed.output) == (1, True)


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
        before = [host.schemata(name) for name in ("", "old")]
        host.configure(rdt={"classes": {"old": {"L3": "f", "MB": 200}, "a": {"MB": 16}, **refused}})
        failed = host.rdt("apply")
        assert (failed.exit_code, "out of range" in failed.output) == (1, True)
        assert [host.schemata(name) for name in ("", "old")] == before
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
    full, told = simulated.schemata(), Transcript()
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
                patch.setattr(classes, "write_schemata", raising(ResctrlError("refused")))
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
    assert calls != "interrupted" or simulated.schemata() == full


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
        assert "(ENOSPC); kernel: Out of RMIDs; each class uses one RMID" in refused.output


# Exclusive classes: where their ways lie, what other classes lose, and how that is restored


def cache(width: int, least: int = 1, shareable: int = 0, *names: str) -> Capabilities:
    limits = CacheCapability((1 << width) - 1, least, gaps=False, shareable=shareable)
    resources = names or ("L3",)
    return Capabilities(dict.fromkeys(resources, limits), {}, {name: [0] for name in resources}, 8)


LAYOUTS: list[tuple[Capabilities, dict[str, Any]]] = [
    (cache(12), {"a": own("60%"), "b": own("30%")}),
    (cache(11), {"a": own("60%"), "b": own("30%")}),
    (cache(12), {"a": own("60%"), "b": own("f00")}),
    (cache(12), {"a": own("25%"), "b": own("f")}),
    (cache(12, 1, 0x3), {"a": own("25%")}),  # the hardware's ways are the last choice
    # a class that is not exclusive takes its share of the rest; one without a value gets the rest
    (cache(12), {"a": own("50%"), "b": {"L3": "25%"}, "c": {"MB": None}}),
    (cache(8), {"a": own("1c")}),  # the rest is the larger part on one side, since masks have no gaps
    (cache(12), {"a": own("50%"), "/": {"L3": "c00"}}),  # the root class keeps its own mask if it has one
    (cache(12), {"a": {"L3": "60%"}}),
    (cache(12, 1, 0, "L3CODE", "L3DATA"), {"a": {"L3DATA": "25%", "exclusive": True}}),  # the same ways
    *((cache(12, 2), specs) for specs in (
        {"a": own("60%"), "b": own("f80")}, {"a": own("70%"), "b": {"L3": "50%"}},
        {"a": own("ff0"), "b": {"L3": "03f"}, "c": {"L3": "00f"}}, {"a": own("03f"), "b": own("ff0")},
        {"a": own("ffe")}, {"a": own("30-70%"), "b": own("40%")},
    )),
]  # fmt: skip


def test_exclusive_ways_are_taken_from_all_others_or_the_layout_is_impossible(golden: Golden) -> None:
    found = []
    for can, specs in LAYOUTS:
        layout = lay_out(specs, can)
        masks = {name: {one: of[0] for one, of in schemata.items()} for name, schemata in layout.desired.items()}
        problems = [f"    {name}: {text}" for name, texts in layout.problems.items() for text in texts]
        found += [json.dumps(specs), *(problems or [f"    {json.dumps(masks)}"])]
    golden("\n".join(found))


STEPS = ("read_abilities", "present_classes", "read_before", "read_schemata", "write_before", "write_schemata")
"""Functions that a call of apply uses, each at least once."""


@pytest.mark.fuse
@pytest.mark.parametrize("step", STEPS)
def test_second_apply_at_any_step_keeps_masks(simulated: RdtHost, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """It runs between this call and the result of the step, as far as this call lets it: one that hangs is one line."""
    full, real = simulated.schemata(), getattr(classes, step)
    simulated.configure(rdt={"classes": {"a": own("50%")}})
    monkeypatch.setattr(classes, "PATIENCE", 0.01)
    codes = []

    def late(*given: Any) -> Any:
        found = real(*given)
        monkeypatch.setattr(classes, step, real)
        codes.append(simulated.rdt("apply").exit_code)
        return found

    monkeypatch.setattr(classes, step, late)
    assert simulated.rdt("apply").exit_code == 0
    assert codes == [int(step.startswith("write"))], "the first step comes before the lock, and the writes behind it"
    assert simulated.schemata() != full
    with simulated.context().ledger.lock_named(LOCK, 1):
        done = simulated.rdt("apply")
    assert (done.exit_code, len(done.output.splitlines())) == (1, 1), done.output
    simulated.apply()
    assert simulated.schemata() == full


@pytest.mark.fuse
@pytest.mark.parametrize("exclusive", ["f", "f0", "fe", "7f", "3"])
def test_proof_keeps_its_label_beside_an_exclusive_class(simulated: RdtHost, tmp_path: Path, exclusive: str) -> None:
    features = tmp_path / "features"
    features.write_text(FIRST)
    simulated.configure(nodeFeaturesPath=str(features))
    context = simulated.context()
    for _ in range(2):
        renew(context)
        assert "allocation.L3=" in features.read_text()
        assert simulated.apply(a=own(exclusive))["a"]["state"] == "as declared"
        os.utime(features, (0, 0))
