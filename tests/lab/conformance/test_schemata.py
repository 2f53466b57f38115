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


@pytest.fixture
def limits(resctrl: Resctrl) -> Limits:
    return Limits(
        int(resctrl.read("info/L3/cbm_mask"), 16),
        int(resctrl.read("info/L3/shareable_bits"), 16),
        int(resctrl.read("info/MB/min_bandwidth")),
        int(resctrl.read("info/MB/bandwidth_gran")),
        sorted(int(name.removeprefix("mon_L3_")) for name in resctrl.names("mon_data") if name.startswith("mon_L3_")),
    )


def everywhere(limits: Limits, mask: int) -> str:
    return f"L3:{';'.join(f'{domain}={mask:x}' for domain in limits.domains)}\n"


@pytest.fixture
def gold(resctrl: Resctrl) -> str:
    return f"{resctrl.make('gold')}/schemata"


def values(resctrl: Resctrl, resource: str, name: str = "schemata", group: str = "gold") -> list[str]:
    rows = dict(line.strip().split(":") for line in resctrl.read(group, name).splitlines())
    return [plain(part.partition("=")[2]) for part in rows[resource].split(";")]


def plain(value: str) -> str:
    """Return a value without the padding of older kernels."""
    return value.strip().lstrip("0") or "0"


def test_new_class_has_all_resources(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    assert resctrl.read(gold).endswith("\n")
    assert values(resctrl, "L3") == [f"{limits.mask:x}"] * len(limits.domains)
    assert values(resctrl, "MB") == ["100"] * len(limits.domains)
    assert resctrl.read("gold/mode") == "shareable\n"
    assert not resctrl.names(resctrl.make("mon_groups/a")) & {"schemata", "size", "mode"}


def test_schemata_is_not_padded(resctrl: Resctrl, gold: str) -> None:
    resctrl.write(gold, "L3:0=f\nMB:0=20\n")
    rows = resctrl.lines(gold)
    assert [row.partition(":")[2].partition(";")[0] for row in rows] == ["0=f", "0=20"]


def test_several_resources_can_be_written_at_once(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    domains = [str(domain) for domain in limits.domains]
    l3, mb = ";".join(f"{d}=6" for d in domains), ";".join(f"{d}=50" for d in domains)
    resctrl.write(gold, f"L3:{l3}\nMB:{mb}\n")
    assert values(resctrl, "L3") == ["6"] * len(domains)
    assert values(resctrl, "MB") == ["50"] * len(domains)


@pytest.mark.parametrize("text", ["L3:0=3\nFOO:0=1\n", "L3:0=3\nMB:0=1000\n", "L3:0=3\nL3:0=0\n", "L3:0=3;0=1\n"])
def test_write_is_applied_completely_or_not_at_all(resctrl: Resctrl, gold: str, text: str) -> None:
    before = resctrl.read(gold)
    with resctrl.refused(errno.EINVAL):
        resctrl.write(gold, text)
    assert resctrl.read(gold) == before


@pytest.mark.parametrize(
    "text", ["L3:0= f \n", " L3:0=f\n", "L3 :0=f\n", "L3:0=0xf\n", "L3:0=F\n", "L3:+0=f\n", "L3:00=f\n", "L3:0=f;\n"]
)
def test_accepted_forms_of_f_are_those_of_the_kernel(resctrl: Resctrl, gold: str, text: str) -> None:
    assert resctrl.write(gold, text) == len(text)
    assert values(resctrl, "L3")[0] == "f"


NO_EQUALS = "Missing '=' or non-numeric domain"


@pytest.mark.parametrize(
    "text, words",
    [
        ("\n", "Missing ':'"),
        ("L3\n", "Missing ':'"),
        ("L3:0=f\n\n", "Missing ':'"),
        ("L3:\n", "Missing 'L3' value"),
        ("FOO:0=1\n", "Unknown or unsupported resource name 'FOO'"),
        ("l3:0=f\n", "Unknown or unsupported resource name 'l3'"),
        ("L3CODE:0=f\n", "Unknown or unsupported resource name 'L3CODE'"),
        ("L3:0\n", NO_EQUALS),
        ("L3:a=1\n", NO_EQUALS),
        ("L3: 0=f\n", NO_EQUALS),
        ("L3:0 =f\n", NO_EQUALS),
        ("L3:;0=f\n", NO_EQUALS),
        ("L3:0=f;0=f\n", "Duplicate domain 0"),
        ("L3:7777=f\n", "ok"),
        ("L3:0=\n", "Non-hex character in the mask "),
        ("L3:0=zz\n", "Non-hex character in the mask zz"),
        ("L3:0=-1\n", "Non-hex character in the mask -1"),
        ("L3:0=f=e\n", "Non-hex character in the mask f=e"),
        ("L3:0=0\n", "Mask out of range"),
        ("L3:0=ffffffff\n", "Mask out of range"),
        ("L3:0=5\n", "The mask 5 has non-consecutive 1-bits"),
        ("MB:0=abc\n", "Invalid MB value abc"),
        ("MB:0=-1\n", "Invalid MB value -1"),
        ("MB:0=0x20\n", "Invalid MB value 0x20"),
        ("MB:0=20:30\n", "Invalid MB value 20:30"),
    ],
)
def test_invalid_write_is_einval_with_words(resctrl: Resctrl, gold: str, text: str, words: str) -> None:
    before = resctrl.read(gold)
    resctrl.poison()
    with resctrl.refused(errno.EINVAL, words):
        resctrl.write(gold, text)
    assert resctrl.read(gold) == before


@pytest.mark.kernel_only
def test_empty_write_is_einval(resctrl: Resctrl, gold: str) -> None:
    # FUSE answers empty writes by itself.
    with resctrl.refused(errno.EINVAL):
        resctrl.write(gold, "")


@pytest.mark.parametrize("beyond", [-1, 1])
def test_bandwidth_out_of_range_is_einval(resctrl: Resctrl, gold: str, limits: Limits, beyond: int) -> None:
    value = limits.min_bandwidth - 1 if beyond < 0 else 101
    with resctrl.refused(errno.EINVAL, f"MB value {value} out of range [{limits.min_bandwidth},100]"):
        resctrl.write(gold, f"MB:0={value}\n")


def test_bandwidth_is_rounded_up_to_its_step_in_the_written_domain_only(
    resctrl: Resctrl, gold: str, limits: Limits
) -> None:
    resctrl.poison()
    resctrl.write(gold, f"MB:0={limits.min_bandwidth + 1}\n")
    assert resctrl.status == "ok"
    assert values(resctrl, "MB") == [str(limits.min_bandwidth + limits.step), *["100"] * (len(limits.domains) - 1)]
    resctrl.write(gold, "L3:0=f\n")
    assert values(resctrl, "L3") == ["f", *[f"{limits.mask:x}"] * (len(limits.domains) - 1)]


def test_size_is_bytes_of_mask(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    whole = int(values(resctrl, "L3", "size")[0])
    resctrl.write(gold, "L3:0=3\n")
    assert int(values(resctrl, "L3", "size")[0]) == whole // limits.mask.bit_count() * 2
    assert values(resctrl, "MB", "size") == values(resctrl, "MB")


def test_exclusive_class_shares_no_ways(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    try:
        resctrl.write(gold, everywhere(limits, 0xC))
        with resctrl.refused(errno.EINVAL, "Schemata overlaps"):
            resctrl.write("gold/mode", "exclusive\n")
        resctrl.write("schemata", everywhere(limits, 0x3))
        assert values(resctrl, "L3", group="") == ["3"] * len(limits.domains)
        for _ in range(2):
            resctrl.write("gold/mode", "exclusive\n")
        assert resctrl.read("gold/mode") == "exclusive\n"
        with resctrl.refused(errno.EINVAL, "Overlaps with exclusive group"):
            resctrl.write("schemata", "L3:0=c\n")
        with resctrl.refused(errno.EINVAL, "Overlaps with other group"):
            resctrl.write(gold, "L3:0=3\n")
        resctrl.make("silver")
        rest = limits.mask & ~0xC
        assert all(int(mask, 16) & ~rest == 0 for mask in values(resctrl, "L3", group="silver"))
        resctrl.write("gold/mode", "shareable\n")
        resctrl.write("schemata", "L3:0=c\n")
    finally:
        resctrl.write("gold/mode", "shareable\n")
        resctrl.write("schemata", everywhere(limits, limits.mask))


def test_ways_of_hardware_cannot_be_exclusive(resctrl: Resctrl, gold: str, limits: Limits) -> None:
    lowest = limits.shareable & -limits.shareable
    resctrl.write("schemata", everywhere(limits, 0x1))
    try:
        resctrl.write(gold, everywhere(limits, lowest))
        with resctrl.refused(errno.EINVAL, "Schemata overlaps"):
            resctrl.write("gold/mode", "exclusive\n")
    finally:
        resctrl.write("schemata", everywhere(limits, limits.mask))


def rows(resctrl: Resctrl, name: str = "schemata") -> list[str]:
    """Return the rows of class gold without padding."""
    return [line.strip() for line in resctrl.read("gold", name).splitlines()]


@pytest.mark.processors("AMD", "AMD without ABMC")
class TestAmd:
    """AMD's bandwidth is in units of 1/8 GB/s, its masks may be empty."""

    def test_info_matches_processor(self, resctrl: Resctrl) -> None:
        numbers = {
            name: resctrl.read("info/MB", name).strip() for name in ("bandwidth_gran", "min_bandwidth", "delay_linear")
        }
        assert numbers == {"bandwidth_gran": "1", "min_bandwidth": "0", "delay_linear": "0"}
        assert resctrl.read("info/L3/min_cbm_bits") == "0\n"
        assert resctrl.read("info/L3/sparse_masks") == "1\n"

    def test_new_class_has_all_resources(self, resctrl: Resctrl) -> None:
        resctrl.make("gold")
        assert rows(resctrl) == ["MB:0=2048;1=2048", "L3:0=fff;1=fff"]

    @pytest.mark.parametrize("value", [0, 1, 7, 100, 2048])
    def test_bandwidth_is_not_rounded(self, resctrl: Resctrl, value: int) -> None:
        resctrl.make("gold")
        resctrl.write("gold/schemata", f"MB:0={value}\n")
        assert rows(resctrl)[0] == rows(resctrl, "size")[0] == f"MB:0={value};1=2048"

    def test_bandwidth_out_of_range_is_einval(self, resctrl: Resctrl) -> None:
        resctrl.make("gold")
        with resctrl.refused(errno.EINVAL, "MB value 2049 out of range [0,2048]"):
            resctrl.write("gold/schemata", "MB:0=2049\n")

    @pytest.mark.parametrize("mask", ["5", "0", "a5a"])
    def test_masks_with_holes_or_without_bits_are_accepted(self, resctrl: Resctrl, mask: str) -> None:
        resctrl.make("gold")
        resctrl.write("gold/schemata", f"L3:0={mask}\n")
        assert rows(resctrl)[1] == f"L3:0={mask};1=fff"


@pytest.mark.processors("AMD without ABMC")
class TestWithoutAssignableCounters:
    """AMD's earlier processors: each RMID has counters of its own, and nothing can be assigned."""

    def test_only_mode_is_default(self, resctrl: Resctrl) -> None:
        assert resctrl.read("info/L3_MON/mbm_assign_mode") == "[default]\n"
        with resctrl.refused(errno.EINVAL, "mbm_event mode is not supported"):
            resctrl.write("info/L3_MON/mbm_assign_mode", "mbm_event\n")

    def test_number_of_counters_is_not_reported(self, resctrl: Resctrl) -> None:
        files = {"num_mbm_cntrs", "available_mbm_cntrs", "mbm_assign_on_mkdir", "event_configs"}
        assert not resctrl.names("info/L3_MON") & files
        resctrl.make("mon_groups/a")
        assert "mbm_L3_assignments" not in resctrl.names("mon_groups/a")

    def test_every_group_counts(self, resctrl: Resctrl) -> None:
        folders = [resctrl.make(f"mon_groups/g{number}") for number in range(6)]
        texts = {
            resctrl.read(folder, f"mon_data/mon_L3_0{domain}", event).strip()
            for folder in folders
            for domain in range(2)
            for event in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
        }
        assert all(text.isdigit() for text in texts)


@pytest.mark.processors("clusters")
class TestClusters:
    """Sub-NUMA clusters: parts of a cache's counters, half the RMIDs, one schemata."""

    def test_each_cache_has_its_clusters(self, resctrl: Resctrl) -> None:
        resctrl.make("mon_groups/a")
        events = set(resctrl.read("info/L3_MON/mon_features").split())
        for cache in range(2):
            parts = {f"mon_sub_L3_{2 * cache + part:02d}" for part in range(2)}
            folder = f"mon_groups/a/mon_data/mon_L3_{cache:02d}"
            assert resctrl.names(folder) == events | parts
            for part in parts:
                assert resctrl.names(f"{folder}/{part}") == events

    def test_schemata_is_per_cache(self, resctrl: Resctrl) -> None:
        resctrl.make("gold")
        assert rows(resctrl) == ["MB:0=100;1=100", "L3:0=fff;1=fff"]

    def test_clusters_share_rmids(self, resctrl: Resctrl) -> None:
        assert resctrl.rmids in (8, 16)  # of the simulation's 16, of the guest's 32
        assert len(resctrl.fill()) == resctrl.rmids - 1

    def test_cache_is_sum_of_its_clusters(self, resctrl: Resctrl, task: int) -> None:
        resctrl.make("mon_groups/a")
        resctrl.write("mon_groups/a/tasks", str(task))
        folder = "mon_groups/a/mon_data/mon_L3_00"
        parts = sum(int(resctrl.read(folder, f"mon_sub_L3_0{part}", "mbm_total_bytes")) for part in range(2))
        assert int(resctrl.read(folder, "mbm_total_bytes")) >= parts

    def test_mask_with_holes_follows_info(self, resctrl: Resctrl) -> None:
        assert resctrl.read("info/L3/sparse_masks") == "1\n"
        resctrl.make("gold")
        resctrl.write("gold/schemata", "L3:0=5\n")
        assert rows(resctrl)[1] == "L3:0=5;1=fff"
        with resctrl.refused(errno.EINVAL, "Mask out of range"):
            resctrl.write("gold/schemata", "L3:0=0\n")


@pytest.mark.processors("CDP")
class TestCdp:
    """The mount option `cdp`: code and data have masks of their own, and there are half as many classes."""

    def test_info_has_code_and_data_and_half_the_classes(self, resctrl: Resctrl) -> None:
        assert {"L3CODE", "L3DATA"} <= resctrl.names("info")
        assert "L3" not in resctrl.names("info")
        assert resctrl.read("info/L3CODE/num_closids") == resctrl.read("info/L3DATA/num_closids") == "4\n"

    def test_new_class_has_code_and_data_masks(self, resctrl: Resctrl) -> None:
        resctrl.make("gold")
        assert rows(resctrl) == ["MB:0=100;1=100", "L3DATA:0=fff;1=fff", "L3CODE:0=fff;1=fff"]

    def test_code_and_data_are_written_separately(self, resctrl: Resctrl) -> None:
        resctrl.make("gold")
        resctrl.write("gold/schemata", "L3CODE:0=3\n")
        assert rows(resctrl)[1:] == ["L3DATA:0=fff;1=fff", "L3CODE:0=3;1=fff"]
        resctrl.write("gold/schemata", "L3DATA:0=f\nL3CODE:0=1\n")
        assert rows(resctrl)[1:] == ["L3DATA:0=f;1=fff", "L3CODE:0=1;1=fff"]

    def test_resource_without_cdp_is_unknown(self, resctrl: Resctrl) -> None:
        resctrl.make("gold")
        with resctrl.refused(errno.EINVAL, "Unknown or unsupported resource name 'L3'"):
            resctrl.write("gold/schemata", "L3:0=f\n")
