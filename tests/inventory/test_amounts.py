from resctrl_hooks.inventory.amounts import scaled


def test_amounts_have_three_digits_and_a_prefix() -> None:
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
