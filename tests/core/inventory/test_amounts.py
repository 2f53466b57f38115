import pytest

from resctrl_hooks.core.inventory.amounts import scaled, with_margin


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0 B"),
        (1.5, "1.50 B"),
        (-1.5e6, "-1.50 MB"),
        (9.99, "9.99 B"),
        (9.995, "10.0 B"),
        (99.94, "99.9 B"),
        (99.95, "100 B"),
        (999, "999 B"),
        (999.4, "999 B"),
        (999.5, "1.00 kB"),
        (999.7e6, "1.00 GB"),
        (1.25e9, "1.25 GB"),
        (2e18, "2.00 EB"),
        (2e21, "2000 EB"),
    ],
)
def test_amount_has_three_digits_and_a_prefix(value: float, text: str) -> None:
    assert scaled(value, "B") == text


@pytest.mark.parametrize(
    "value, text",
    [(999, "999 B"), (1023, "1023 B"), (1023.5, "1.00 KiB"), (65536, "64.0 KiB"), (1023.9 * 1024, "1.00 MiB")],
)
def test_binary_amount_has_a_prefix_from_1024(value: float, text: str) -> None:
    assert scaled(value, "B", binary=True) == text


@pytest.mark.parametrize(
    "value, margin, text",
    [
        (37e6, 20e6, "37 ± 20 MB/s"),
        (1.5e6, 4.25e6, "1.5 ± 4.2 MB/s"),
        (0, 0, "0.0 ± 0.0 B/s"),
        (2e9, 3e7, "2.0 ± 0.0 GB/s"),
        (999, 1, "999 ± 1 B/s"),
        (1000, 1, "1.0 ± 0.0 kB/s"),
        (10, 1, "10 ± 1 B/s"),
        (9.9, 1, "9.9 ± 1.0 B/s"),
        (-2000, 100, "-2.0 ± 0.1 kB/s"),
        (2e21, 1e21, "2000 ± 1000 EB/s"),
    ],
)
def test_number_and_margin_share_unit(value: float, margin: float, text: str) -> None:
    assert with_margin(value, margin, "B/s") == text
