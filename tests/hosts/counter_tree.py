"""A mon_data folder as a plain tree whose counters have the written values."""

from pathlib import Path

OCCUPANCY = "mon_L3_00/llc_occupancy"
TOTAL = "mon_L3_00/mbm_total_bytes"
ENERGY = "mon_PERF_PKG_00/core_energy"


def say(group: Path, **counters: object) -> None:
    """Write counters of domain mon_L3_00; others by their whole path as `say_paths` takes it."""
    say_paths(group, {f"mon_L3_00/{name}": value for name, value in counters.items()})


def say_paths(group: Path, values: dict[str, object]) -> None:
    """Write counters, by their path below mon_data."""
    for path, value in values.items():
        file = group / "mon_data" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")


def remake(group: Path, aside: Path) -> None:
    """Recreate a group. The old one is kept aside, so that its inode number is not reused."""
    group.rename(aside)
    group.mkdir()
