"""Times in words: the forms that are documented, and nothing else."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from resctrl_hooks.past.times import parse_time

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 3, 5, 15, 30, 20, tzinfo=ZONE)


@pytest.mark.parametrize(
    "text, found",
    [
        ("14:00", (5, 14, 0, 0)),
        ("14:00:07", (5, 14, 0, 7)),
        ("8:05", (5, 8, 5, 0)),
        ("16:00", (4, 16, 0, 0)),
        ("today 14:00", (5, 14, 0, 0)),
        ("yesterday 14:00", (4, 14, 0, 0)),
        ("  Yesterday   14:00 ", (4, 14, 0, 0)),
        ("yesterday", (4, 0, 0, 0)),
        ("today", (5, 0, 0, 0)),
        ("now", (5, 15, 30, 20)),
        ("3m ago", (5, 15, 27, 20)),
        ("90s ago", (5, 15, 28, 50)),
        ("1h30m ago", (5, 14, 0, 20)),
        ("2d ago", (3, 15, 30, 20)),
        ("0.5h ago", (5, 15, 0, 20)),
        ("2026-03-05", (5, 0, 0, 0)),
        ("2026-03-05T14:00", (5, 14, 0, 0)),
        ("2026-03-05 14:00:01", (5, 14, 0, 1)),
    ],
)
def test_time_in_words_is_a_moment_in_the_local_zone(text: str, found: tuple[int, int, int, int]) -> None:
    day, hour, minute, second = found
    assert parse_time(text, NOW) == datetime(2026, 3, day, hour, minute, second, tzinfo=ZONE)


def test_time_with_a_zone_is_in_that_zone() -> None:
    assert parse_time("2026-03-05T12:00:00Z", NOW) == datetime(2026, 3, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "14", "25:00", "14:61", "last tuesday", "3 ago", "3x ago", "-3m ago", "2026-13-01", "05/03/2026"],
)
def test_other_text_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time such as 14:00, 'yesterday 14:00'"):
        parse_time(text, NOW)


@pytest.mark.parametrize("text", ["today 16:00", "2027-01-01"])
def test_future_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="in the future"):
        parse_time(text, NOW)
