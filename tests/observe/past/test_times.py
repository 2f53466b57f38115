"""Times in words: the forms that are documented, and nothing else."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.observe.past.times import parse_time

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


@pytest.mark.parametrize(
    "text",
    ["1000000d ago", "9" * 400 + "s ago", "0001-01-01", "0001-01-01T00:00+14:00", "1969-12-31T23:59:59Z"],
)
def test_time_before_1970_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"is before 1970$"):
        parse_time(text, NOW)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system whose zone has summer time: Berlin's, without a file of zones."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


WINTER = "2026-11-28T13:00+01:00"
AUTUMN = "2026-10-25T12:00+01:00"  # nine hours after the end of summer time
SPRING = "2026-03-29T03:30+02:00"  # half an hour after its beginning


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    "now, text, found",
    [
        (WINTER, "2026-07-01 14:00", "2026-07-01T14:00+02:00"),
        (WINTER, "2026-07-01", "2026-07-01T00:00+02:00"),
        (WINTER, "14:00", "2026-11-27T14:00+01:00"),
        (AUTUMN, "yesterday 14:00", "2026-10-24T14:00+02:00"),
        (AUTUMN, "today", "2026-10-25T00:00+02:00"),
        (AUTUMN, "01:30", "2026-10-25T01:30+02:00"),
        (AUTUMN, "02:30", "2026-10-25T02:30+01:00"),  # twice on that day: the last one before now
        ("2026-10-25T02:10+01:00", "02:30", "2026-10-25T02:30+02:00"),  # the second one is still to come
        ("2026-10-25T02:10+01:00", "20m ago", "2026-10-25T02:50+02:00"),
        ("2026-10-25T02:10+01:00", "1d ago", "2026-10-24T03:10+02:00"),
        (SPRING, "01:30", "2026-03-29T01:30+01:00"),
        (SPRING, "yesterday 14:00", "2026-03-28T14:00+01:00"),
        (SPRING, "1h ago", "2026-03-29T01:30+01:00"),
    ],
)
def test_local_time_has_the_offset_of_its_own_day(now: str, text: str, found: str) -> None:
    assert parse_time(text, datetime.fromisoformat(now)) == datetime.fromisoformat(found)


@given(
    seconds=st.integers(0, 40_000_000),
    zone=st.integers(-23, 23),
    text=st.text(alphabet="0123456789:-TZ dmhsago.+", max_size=24),
)
def test_any_text_is_a_time_before_now_or_refused(seconds: int, zone: int, text: str) -> None:
    now = datetime.fromtimestamp(1_760_000_000 + seconds, timezone(timedelta(hours=zone)))
    try:
        found = parse_time(text, now)
    except ValueError:
        return
    assert 0 <= found.timestamp() <= now.timestamp()
