"""Times in words: the forms that are documented, and nothing else."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.observe.past.times import parse_time

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 3, 5, 15, 30, 20, tzinfo=ZONE)


@settings(max_examples=examples(60))
@given(st.integers(0, 86_399), st.integers(0, 7 * 86_400), st.integers(-11, 11))
def test_time_in_words_is_a_moment_in_the_zone_of_now(now_second: int, ago: int, hours: int) -> None:
    """The second of now in its day, and another moment so many seconds ago, written in each form."""
    zone = timezone(timedelta(hours=hours, minutes=30))  # not the system's
    midnight = datetime(2026, 3, 5, tzinfo=zone)
    now = midnight + timedelta(seconds=now_second)
    when, day = now - timedelta(seconds=ago), timedelta(days=1)
    minutes, seconds = divmod(ago, 60)
    forms = [f"{ago}s ago", f"{minutes}m{seconds}s ago", f"{when:%Y-%m-%d %H:%M:%S}", f"{when.astimezone(UTC):%FT%TZ}"]
    if ago <= now_second:
        forms.append(f"today {when:%H:%M:%S}")
    elif ago <= now_second + 86_400:
        forms.append(f" Yesterday   {when:%H:%M:%S} ")
    forms += [f"{when:%H:%M:%S}"] if ago < 86_400 else []
    assert {parse_time(form, now) for form in forms} == {when}
    minute = when.replace(second=0)
    assert parse_time(f"{minute:%Y-%m-%dT%H:%M}", now) == minute
    last = next(one for one in (minute + day * back for back in range(8, -8, -1)) if one <= now)
    assert parse_time(f"{minute.hour}:{minute:%M}", now) == last, "the last one before now"
    assert parse_time(f"{when:%F}", now) == when.replace(hour=0, minute=0, second=0)
    assert parse_time("1h30m ago", now) == parse_time("1.5h ago", now) == now - timedelta(minutes=90)
    assert [parse_time(word, now) for word in ("now", "today", "yesterday")] == [now, midnight, midnight - day]


FORMS = r"is not a time such as 14:00, 'yesterday 14:00'"
REFUSED = {
    FORMS: ["", "14", "25:00", "14:61", "last tuesday", "3 ago", "3x ago", "-3m ago", "2026-13-01", "05/03/2026"],
    "in the future.*; enter": ["today 16:00", "2027-01-01", "9999-12-31T23:59:59", "9999-12-31T23:59:59-12:00"],
    r"is before 1970; enter a time of the past": [
        *("1000000d ago", "9" * 400 + "s ago", "0001-01-01", "0001-01-01T00:00+14:00", "1969-12-31T23:59:59Z")
    ],
}


@pytest.mark.parametrize("why, text", [(why, text) for why, texts in REFUSED.items() for text in texts])
def test_other_text_is_refused_with_the_reason(why: str, text: str) -> None:
    with pytest.raises(ValueError, match=why):
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


CLOCK_CHANGE = "2026-10-25T02:10+01:00"


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    "now, text, found",
    [
        *((WINTER, "2026-07-01 14:00", "2026-07-01T14:00+02:00"), (WINTER, "2026-07-01", "2026-07-01T00:00+02:00")),
        *((WINTER, "14:00", "2026-11-27T14:00+01:00"), (AUTUMN, "yesterday 14:00", "2026-10-24T14:00+02:00")),
        *((AUTUMN, "today", "2026-10-25T00:00+02:00"), (AUTUMN, "01:30", "2026-10-25T01:30+02:00")),
        (AUTUMN, "02:30", "2026-10-25T02:30+01:00"),  # twice on that day: the last one before now
        (CLOCK_CHANGE, "02:30", "2026-10-25T02:30+02:00"),  # the second one is still to come
        *((CLOCK_CHANGE, "20m ago", "2026-10-25T02:50+02:00"), (CLOCK_CHANGE, "1d ago", "2026-10-24T03:10+02:00")),
        *((SPRING, "01:30", "2026-03-29T01:30+01:00"), (SPRING, "yesterday 14:00", "2026-03-28T14:00+01:00")),
        (SPRING, "1h ago", "2026-03-29T01:30+01:00"),
    ],
)
def test_local_time_has_the_offset_of_its_own_day(now: str, text: str, found: str) -> None:
    assert parse_time(text, datetime.fromisoformat(now)) == datetime.fromisoformat(found)


@given(st.integers(0, 40_000_000), st.integers(-23, 23), st.text(alphabet="0123456789:-TZ dmhsago.+", max_size=24))
def test_any_text_is_a_time_before_now_or_refused(seconds: int, zone: int, text: str) -> None:
    now = datetime.fromtimestamp(1_760_000_000 + seconds, timezone(timedelta(hours=zone)))
    try:
        found = parse_time(text, now)
    except ValueError:
        return
    assert 0 <= found.timestamp() <= now.timestamp()
