"""What differs by processor, besides assignable counters: AMD's schemata, Sub-NUMA clusters, masks with holes, CDP."""

import errno

import pytest

from .filesystem import Resctrl


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
