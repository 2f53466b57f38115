"""`info`: properties of the hardware."""

import errno

from .filesystem import Resctrl


def test_each_resource_has_a_folder(resctrl: Resctrl) -> None:
    assert resctrl.names("info") >= {"L3", "L3_MON", "MB", "last_cmd_status"}
    assert resctrl.names("info/L3") >= {"bit_usage", "cbm_mask", "min_cbm_bits", "num_closids", "shareable_bits"}
    assert resctrl.names("info/MB") >= {"bandwidth_gran", "delay_linear", "min_bandwidth", "num_closids"}
    assert resctrl.names("info/L3_MON") >= {"max_threshold_occupancy", "mon_features", "num_rmids"}


def test_numbers_are_decimal_and_masks_hexadecimal(resctrl: Resctrl) -> None:
    names = ["L3/min_cbm_bits", "L3/num_closids", "L3_MON/num_rmids"]
    for path in (*names, "MB/bandwidth_gran", "MB/min_bandwidth", "MB/num_closids"):
        text = resctrl.read("info", path)
        assert text == f"{int(text)}\n"
    for name in ("cbm_mask", "shareable_bits"):
        text = resctrl.read("info/L3", name)
        assert text == f"{int(text, 16):x}\n"
    assert resctrl.read("info/L3_MON/mon_features").splitlines()[0] == "llc_occupancy"


def test_command_that_succeeds_is_ok(resctrl: Resctrl) -> None:
    resctrl.poison()
    resctrl.write("schemata", resctrl.read("schemata"))
    assert resctrl.read("info/last_cmd_status") == "ok\n"


def test_words_stay_until_next_command(resctrl: Resctrl) -> None:
    resctrl.poison()
    resctrl.tasks()
    assert resctrl.status == resctrl.status == Resctrl.POISON


def test_bit_usage_has_a_letter_for_each_way(resctrl: Resctrl) -> None:
    ways = int(resctrl.read("info/L3/cbm_mask"), 16).bit_length()
    hardware = int(resctrl.read("info/L3/shareable_bits"), 16)
    letters = "".join("X" if hardware >> way & 1 else "S" for way in reversed(range(ways)))
    assert {part.partition("=")[2] for part in resctrl.read("info/L3/bit_usage").strip().split(";")} == {letters}


def test_limbo_threshold_is_writable(resctrl: Resctrl) -> None:
    path = "info/L3_MON/max_threshold_occupancy"
    before = resctrl.read(path)
    resctrl.poison()
    try:
        resctrl.write(path, "131072\n")
        assert int(resctrl.read(path)) == 131072
        with resctrl.refused(errno.EINVAL, Resctrl.POISON):
            resctrl.write(path, "x\n")
        with resctrl.refused(errno.ERANGE, Resctrl.POISON):
            resctrl.write(path, "99999999999\n")
    finally:
        resctrl.write(path, before)
