"""Wrong options of the commands of observation: each is refused with its reason."""

import pytest
from click.testing import CliRunner
from core.cli.test_errors import refused, suggests

from resctrl_hooks.core.cli import main


def test_unknown_option_suggests_similar_one() -> None:
    suggests("top --onec", "--once")


@pytest.mark.parametrize("words", [("top", "--at", "1969-12-31T23:00:00Z"), ("report", "--capacity", "0G")])
def test_time_and_bandwidth_below_their_range_are_refused(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "Invalid value for '--" in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        ("top --interval 10ms", "10ms is not in the range from 100ms to 24h."),
        ("record -o x.csv --for 30h", "30h is not in the range from 100ms to 24h."),
        ("diagnose --for 1s", "1s is not in the range from 5s to 24h."),
    ],
)
def test_duration_outside_its_range_is_refused_with_the_range_in_words(words: str, said: str) -> None:
    refused(words, said)
