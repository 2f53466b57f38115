"""`schemata`, `size` and `mode`: a class's part of caches and memory bandwidth."""

import errno
from typing import NamedTuple

import pytest

from .filesystem import Resctrl


class Limits(NamedTuple):
    """The limits of values in `info`."""

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
    """Return what gives a class a mask in all domains."""
    return f"L3:{';'.join(f'{domain}={mask:x}' for domain in limits.domains)}\n"


@pytest.fixture
def gold(resctrl: Resctrl) -> str:
    """Return the schemata of a new class."""
    return f"{resctrl.make('gold')}/schemata"


def values(resctrl: Resctrl, resource: str, name: str = "schemata", group: str = "gold") -> list[str]:
    """Return the values of a resource, by domain."""
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
    "text",
    ["L3:0= f \n", " L3:0=f\n", "L3 :0=f\n", "L3:0=0xf\n", "L3:0=F\n", "L3:+0=f\n", "L3:00=f\n", "L3:0=f;\n"],
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


def test_missing_newline_is_einval_without_words(resctrl: Resctrl, gold: str) -> None:
    resctrl.poison()
    with resctrl.refused(errno.EINVAL, Resctrl.POISON):
        resctrl.write(gold, "L3:0=f")


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


@pytest.mark.parametrize(
    "text, words",
    [
        ("exclusive\n", "Schemata overlaps"),
        ("nonsense\n", "Unknown or unsupported mode"),
        (" exclusive\n", "Unknown or unsupported mode"),
        ("\n", "Unknown or unsupported mode"),
        ("exclusive", Resctrl.POISON),
    ],
)
def test_invalid_mode_is_einval(resctrl: Resctrl, gold: str, text: str, words: str) -> None:
    assert gold
    resctrl.poison()
    with resctrl.refused(errno.EINVAL, words):
        resctrl.write("gold/mode", text)
    assert resctrl.read("gold/mode") == "shareable\n"


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
