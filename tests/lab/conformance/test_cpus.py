"""`cpus` and `cpus_list`: which CPUs count for a group whatever runs on them."""

import errno

import pytest

from .filesystem import Resctrl


@pytest.fixture
def last(resctrl: Resctrl) -> int:
    """Return the highest CPU, of at least two."""
    mask = int(resctrl.read("cpus").replace(",", ""), 16)
    assert mask & 3 == 3, "needs two CPUs"
    return mask.bit_length() - 1


def cpus(resctrl: Resctrl, group: str = "") -> int:
    """Return the mask of a group after checking that both files agree."""
    mask = int(resctrl.read(group, "cpus").replace(",", ""), 16)
    listed = 0
    for span in filter(None, resctrl.read(group, "cpus_list").strip().split(",")):
        first, _, end = span.partition("-")
        for cpu in range(int(first), int(end or first) + 1):
            listed |= 1 << cpu
    assert mask == listed
    return mask


def test_class_takes_cpus_from_root_which_cannot_drop_them_and_returns_them(resctrl: Resctrl, last: int) -> None:
    everything = cpus(resctrl)
    assert everything == (1 << (last + 1)) - 1
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "1\n")
    assert (cpus(resctrl, "gold"), cpus(resctrl)) == (2, everything & ~2)
    resctrl.write("gold/cpus", "1\n")
    assert (cpus(resctrl, "gold"), cpus(resctrl)) == (1, everything & ~1)
    resctrl.rmdir("gold")
    assert cpus(resctrl) == everything
    with resctrl.refused(errno.EINVAL, "Can't drop CPUs from default group"):
        resctrl.write("cpus_list", "0\n")
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "1\n")
    resctrl.write("cpus_list", f"0-{last}\n")
    assert (cpus(resctrl, "gold"), cpus(resctrl)) == (0, everything)


def test_class_takes_cpus_from_another_class(resctrl: Resctrl) -> None:
    resctrl.make("gold", "silver")
    resctrl.write("gold/cpus_list", "0-1\n")
    resctrl.write("silver/cpus_list", "1\n")
    assert (cpus(resctrl, "gold"), cpus(resctrl, "silver")) == (1, 2)


def test_mon_group_has_cpus_of_its_class_only(resctrl: Resctrl) -> None:
    resctrl.make("gold", "gold/mon_groups/a", "gold/mon_groups/b")
    resctrl.write("gold/cpus_list", "1\n")
    with resctrl.refused(errno.EINVAL, "Can only add CPUs to mongroup that belong to parent"):
        resctrl.write("gold/mon_groups/a/cpus_list", "0\n")
    resctrl.write("gold/mon_groups/a/cpus_list", "1\n")
    assert cpus(resctrl, "gold/mon_groups/a") == cpus(resctrl, "gold") == 2
    resctrl.write("gold/mon_groups/b/cpus_list", "1\n")
    assert (cpus(resctrl, "gold/mon_groups/a"), cpus(resctrl, "gold/mon_groups/b")) == (0, 2)
    resctrl.write("gold/cpus_list", "0-1\n")
    assert cpus(resctrl, "gold/mon_groups/b") == 0, "a write to the class takes them"


LISTS = [("0,1\n", 3), ("0-1\n", 3), (" 1 \n", 2), ("1,\n", 2), ("1", 2), ("1\n0\n", 2), ("\n", 0)]
MASKS = [("1\n", 1), ("3 \n", 3), ("1,\n", 1), ("2", 2)]


@pytest.mark.parametrize(
    "name, text, mask", [*(("cpus_list", *one) for one in LISTS), *(("cpus", *one) for one in MASKS)]
)
def test_accepted_lists_and_masks_are_those_of_the_kernel(resctrl: Resctrl, name: str, text: str, mask: int) -> None:
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "0-1\n")
    resctrl.write(f"gold/{name}", text)
    assert cpus(resctrl, "gold") == mask


def test_words_all_and_n_mean_cpus(resctrl: Resctrl, last: int) -> None:
    everything = cpus(resctrl)
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "all\n")
    assert cpus(resctrl, "gold") == everything
    resctrl.write("gold/cpus_list", "N\n")
    assert cpus(resctrl, "gold") == 1 << last


@pytest.mark.parametrize(
    "name, text, number",
    [
        ("cpus_list", "x\n", errno.EINVAL),
        ("cpus_list", "1-0\n", errno.EINVAL),
        ("cpus_list", "none\n", errno.EINVAL),
        ("cpus_list", "0x1\n", errno.EINVAL),
        ("cpus_list", "99999\n", errno.ERANGE),
        ("cpus_list", "0-99999\n", errno.ERANGE),
        ("cpus", "x\n", errno.EINVAL),
        ("cpus", "0x1\n", errno.EINVAL),
        ("cpus", "0-1\n", errno.EINVAL),
        ("cpus", "ffffffff,ffffffff,ffffffff,ffffffff,ffffffff\n", errno.EOVERFLOW),
    ],
)
def test_invalid_list_or_mask_is_refused(resctrl: Resctrl, name: str, text: str, number: int) -> None:
    resctrl.make("gold")
    resctrl.write("gold/cpus_list", "1\n")
    with resctrl.refused(number, "Bad CPU list/mask"):
        resctrl.write(f"gold/{name}", text)
    assert cpus(resctrl, "gold") == 2
