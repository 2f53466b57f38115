import pytest

from resctrl_hooks.inventory.amounts import scaled, with_margin


def test_amounts_have_three_digits_and_prefix() -> None:
    assert [scaled(99.97e6, "B/s"), scaled(999.7e6, "B/s"), scaled(1023.9 * 1024, "B", binary=True)] == [
        "100 MB/s",
        "1.00 GB/s",
        "1.00 MiB",
    ]
    assert [scaled(0, "B"), scaled(999, "B/s"), scaled(1.25e9, "B/s"), scaled(65536, "B", binary=True)] == [
        "0 B",
        "999 B/s",
        "1.25 GB/s",
        "64.0 KiB",
    ]


@pytest.mark.parametrize(
    "value, margin, text",
    [
        (37e6, 20e6, "37 ± 20 MB/s"),
        (1.5e6, 4.25e6, "1.5 ± 4.2 MB/s"),
        (0, 0, "0.0 ± 0.0 B/s"),
        (2e9, 3e7, "2.0 ± 0.0 GB/s"),
    ],
)
def test_number_and_margin_share_unit(value: float, margin: float, text: str) -> None:
    assert with_margin(value, margin, "B/s") == text
