"""`schemata`, `size` and `mode`, and what differs by processor: AMD, Sub-NUMA clusters, masks with holes, CDP."""

import errno
from typing import NamedTuple

import pytest

from .filesystem import Resctrl


class Limits(NamedTuple):
    mask: int
    shareable: int
    min_bandwidth: int
    step: int
    domains: list[int]

    def everywhere(self, mask: int) -> str:
        return f"L3:{';'.join(f'{domain}={mask:x}' for domain in self.domains)}\n"


@pytest.fixture
def limits(resctrl: Resctrl) -> Limits:
    return Limits(
        int(resctrl.read("info/L3/cbm_mask"), 16),
        int(resctrl.read("info/L3/shareable_bits"), 16),
        int(resctrl.read("info/MB/min_bandwidth")),
        int(resctrl.read("info/MB/bandwidth_gran")),
        sorted(int(name.removeprefix("mon_L3_")) for name in resctrl.names("mon_data") if name.startswith("mon_L3_")),
    )


@pytest.fixture
def gold(resctrl: Resctrl) -> str:
    return f"{resctrl.make('gold')}/schemata"


def values(resctrl: Resctrl, resource: str, name: str = "schemata", group: str = "gold") -> list[str]:
    """Return the values of a resource without the padding of older kernels."""
    rows = dict(line.strip().split(":") for line in resctrl.read(group, name).splitlines())
    return [part.partition("=")[2].strip().lstrip("0") or "0" for part in rows[resource].split(";")]


def test_new_class_has_all_resources(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    assert resctrl.read(gold).endswith("\n")
    assert values(resctrl, "L3") == [f"{limits.mask:x}"] * len(limits.domains)
    assert values(resctrl, "MB") == ["100"] * len(limits.domains)
    assert resctrl.read("gold/mode") == "shareable\n"
    assert not resctrl.names(resctrl.make("mon_groups/a")) & {"schemata", "size", "mode"}


def test_schemata_is_not_padded(resctrl: Resctrl, gold: str) -> None:
    resctrl.write(gold, "L3:0=f\nMB:0=20\n")
    assert [row.partition(":")[2].partition(";")[0] for row in resctrl.lines(gold)] == ["0=f", "0=20"]


def test_write_changes_named_domains_and_rounds_bandwidth_up(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    others = len(limits.domains) - 1
    resctrl.poison()
    resctrl.write(gold, f"L3:0=f\nMB:0={limits.min_bandwidth + 1}\n")
    assert resctrl.status == "ok"
    assert values(resctrl, "MB") == [str(limits.min_bandwidth + limits.step), *["100"] * others]
    assert values(resctrl, "L3") == ["f", *[f"{limits.mask:x}"] * others]
    whole = int(values(resctrl, "L3", "size")[-1])
    resctrl.write(gold, limits.everywhere(0x3))
    assert values(resctrl, "L3") == ["3"] * len(limits.domains)
    assert int(values(resctrl, "L3", "size")[0]) == whole // limits.mask.bit_count() * 2
    assert values(resctrl, "MB", "size") == values(resctrl, "MB")


@pytest.mark.parametrize(
    "text", ["L3:0= f \n", " L3:0=f\n", "L3 :0=f\n", "L3:0=0xf\n", "L3:0=F\n", "L3:+0=f\n", "L3:00=f\n", "L3:0=f;\n"]
)
def test_accepted_forms_of_f_are_those_of_the_kernel(resctrl: Resctrl, gold: str, text: str) -> None:
    assert resctrl.write(gold, text) == len(text)
    assert values(resctrl, "L3")[0] == "f"


NO_EQUALS = "Missing '=' or non-numeric domain"
INVALID = {
    "\n": "Missing ':'",
    "L3\n": "Missing ':'",
    "L3:0=f\n\n": "Missing ':'",
    "L3:\n": "Missing 'L3' value",
    "FOO:0=1\n": "Unknown or unsupported resource name 'FOO'",
    "l3:0=f\n": "Unknown or unsupported resource name 'l3'",
    "L3CODE:0=f\n": "Unknown or unsupported resource name 'L3CODE'",
    **dict.fromkeys(("L3:0\n", "L3:a=1\n", "L3: 0=f\n", "L3:0 =f\n", "L3:;0=f\n"), NO_EQUALS),
    "L3:0=f;0=f\n": "Duplicate domain 0",
    "L3:7777=f\n": "ok",
    "L3:0=\n": "Non-hex character in the mask ",
    "L3:0=zz\n": "Non-hex character in the mask zz",
    "L3:0=-1\n": "Non-hex character in the mask -1",
    "L3:0=f=e\n": "Non-hex character in the mask f=e",
    "L3:0=0\n": "Mask out of range",
    "L3:0=ffffffff\n": "Mask out of range",
    "L3:0=5\n": "The mask 5 has non-consecutive 1-bits",
    "MB:0=abc\n": "Invalid MB value abc",
    "MB:0=-1\n": "Invalid MB value -1",
    "MB:0=0x20\n": "Invalid MB value 0x20",
    "MB:0=20:30\n": "Invalid MB value 20:30",
    "MB:0=101\n": "MB value 101 out of range [{least},100]",
    "MB:0={below}\n": "MB value {below} out of range [{least},100]",
    "L3:0=3\nFOO:0=1\n": "Unknown or unsupported resource name 'FOO'",
    "L3:0=3\nMB:0=1000\n": "MB value 1000 out of range [{least},100]",
    "L3:0=3\nL3:0=0\n": "Duplicate domain 0",
    "L3:0=3;0=1\n": "Duplicate domain 0",
}
"""What is written, of which nothing applies, and the kernel's words."""


@pytest.mark.parametrize("text", INVALID)
def test_invalid_write_is_einval_with_words(resctrl: Resctrl, gold: str, limits: Limits, text: str) -> None:
    known = {"least": limits.min_bandwidth, "below": limits.min_bandwidth - 1}
    before = resctrl.read(gold)
    resctrl.poison()
    with resctrl.refused(errno.EINVAL, INVALID[text].format(**known)):
        resctrl.write(gold, text.format(**known))
    assert resctrl.read(gold) == before


@pytest.mark.kernel_only
def test_empty_write_is_einval(resctrl: Resctrl, gold: str) -> None:
    # FUSE answers empty writes by itself.
    with resctrl.refused(errno.EINVAL):
        resctrl.write(gold, "")


def test_exclusive_class_shares_no_ways(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    def is_refused(path: str, text: str, words: str) -> None:
        with resctrl.refused(errno.EINVAL, words):
            resctrl.write(path, text)

    try:
        resctrl.write(gold, limits.everywhere(0xC))
        is_refused("gold/mode", "exclusive\n", "Schemata overlaps")
        resctrl.write("schemata", limits.everywhere(0x3))
        assert values(resctrl, "L3", group="") == ["3"] * len(limits.domains)
        for _ in range(2):
            resctrl.write("gold/mode", "exclusive\n")
        assert resctrl.read("gold/mode") == "exclusive\n"
        is_refused("schemata", "L3:0=c\n", "Overlaps with exclusive group")
        is_refused(gold, "L3:0=3\n", "Overlaps with other group")
        resctrl.make("silver")
        rest = limits.mask & ~0xC
        assert all(int(mask, 16) & ~rest == 0 for mask in values(resctrl, "L3", group="silver"))
        resctrl.write("gold/mode", "shareable\n")
        resctrl.write("schemata", "L3:0=c\n")
        resctrl.rmdir("silver")
        resctrl.write("schemata", limits.everywhere(0x1))
        resctrl.write(gold, limits.everywhere(limits.shareable & -limits.shareable))
        is_refused("gold/mode", "exclusive\n", "Schemata overlaps")  # with the hardware's own ways
    finally:
        resctrl.write("gold/mode", "shareable\n")
        resctrl.write("schemata", limits.everywhere(limits.mask))


AMD_INFO = {
    **{f"info/MB/{name}": f"{value}\n" for name, value in (("bandwidth_gran", 1), ("min_bandwidth", 0))},
    "info/MB/delay_linear": "0\n",
    "info/L3/min_cbm_bits": "0\n",
    "info/L3/sparse_masks": "1\n",
}
AMD = ["MB:0=2048;1=2048", "L3:0=fff;1=fff"]
CDP = ["MB:0=100;1=100", "L3DATA:0=fff;1=fff", "L3CODE:0=fff;1=fff"]
INFO = {
    "AMD": AMD_INFO,
    "AMD without ABMC": {**AMD_INFO, "info/L3_MON/mbm_assign_mode": "[default]\n"},
    "clusters": {"info/L3/sparse_masks": "1\n"},
    "CDP": {"info/L3CODE/num_closids": "4\n", "info/L3DATA/num_closids": "4\n"},
}
"""By processor: files below `info`. AMD's bandwidth is in units of 1/8 GB/s, CDP halves the classes."""
WRITTEN: dict[str, dict[str, list[str] | str]] = {
    "AMD": {
        "": AMD,
        **{f"MB:0={value}\n": [f"MB:0={value};1=2048", AMD[1]] for value in (0, 1, 7, 100, 2048)},
        "MB:0=2049\n": "MB value 2049 out of range [0,2048]",
        **{f"MB:0=2048\nL3:0={mask}\n": [AMD[0], f"L3:0={mask};1=fff"] for mask in ("5", "0", "a5a")},
    },
    "clusters": {
        "": ["MB:0=100;1=100", "L3:0=fff;1=fff"],
        "L3:0=5\n": ["MB:0=100;1=100", "L3:0=5;1=fff"],
        "L3:0=0\n": "Mask out of range",
    },
    "CDP": {
        "": CDP,
        "L3CODE:0=3\n": [*CDP[:2], "L3CODE:0=3;1=fff"],
        "L3DATA:0=f\nL3CODE:0=1\n": [CDP[0], "L3DATA:0=f;1=fff", "L3CODE:0=1;1=fff"],
        "L3:0=f\n": "Unknown or unsupported resource name 'L3'",
    },
}
"""By processor, one after the other: what is written, and the class's rows afterwards, or the refusal's words."""
WRITTEN["AMD without ABMC"] = WRITTEN["AMD"]


@pytest.mark.processors("AMD", "AMD without ABMC", "clusters", "CDP")
def test_info_and_schemata_are_those_of_the_processor(resctrl: Resctrl, processor: str, gold: str) -> None:
    assert {path: resctrl.read(path) for path in INFO[processor]} == INFO[processor]
    for text, shown in WRITTEN[processor].items():
        if isinstance(shown, str):
            with resctrl.refused(errno.EINVAL, shown):
                resctrl.write(gold, text)
            continue
        if text:
            resctrl.write(gold, text)
        assert [line.strip() for line in resctrl.read(gold).splitlines()] == shown
        assert values(resctrl, "MB", "size") == values(resctrl, "MB")
    assert ("L3" in resctrl.names("info")) == (processor != "CDP")


@pytest.mark.processors("AMD without ABMC")
def test_each_group_counts_and_nothing_is_assigned_without_assignable_counters(resctrl: Resctrl) -> None:
    with resctrl.refused(errno.EINVAL, "mbm_event mode is not supported"):
        resctrl.write("info/L3_MON/mbm_assign_mode", "mbm_event\n")
    files = {"num_mbm_cntrs", "available_mbm_cntrs", "mbm_assign_on_mkdir", "event_configs"}
    assert not resctrl.names("info/L3_MON") & files
    for folder in [resctrl.make(f"mon_groups/g{number}") for number in range(6)]:
        assert "mbm_L3_assignments" not in resctrl.names(folder)
        for path in (f"mon_data/mon_L3_0{domain}" for domain in range(2)):
            for event in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
                assert resctrl.read(folder, path, event).strip().isdigit()


@pytest.mark.processors("clusters")
def test_clusters_are_parts_of_their_cache_and_share_rmids(resctrl: Resctrl, task: int) -> None:
    resctrl.make("mon_groups/a")
    resctrl.write("mon_groups/a/tasks", str(task))
    events = set(resctrl.read("info/L3_MON/mon_features").split())
    for cache in range(2):
        parts = {f"mon_sub_L3_{2 * cache + part:02d}" for part in range(2)}
        folder = f"mon_groups/a/mon_data/mon_L3_{cache:02d}"
        assert resctrl.names(folder) == events | parts
        assert all(resctrl.names(f"{folder}/{part}") == events for part in parts)
        counted = sum(int(resctrl.read(folder, part, "mbm_total_bytes")) for part in parts)
        assert int(resctrl.read(folder, "mbm_total_bytes")) >= counted
    assert resctrl.rmids in (8, 16)  # of the simulation's 16, of the guest's 32
    assert len(resctrl.fill()) == resctrl.rmids - 2, "the root group and this one have one"
