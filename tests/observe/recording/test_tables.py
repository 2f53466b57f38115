"""The tables of a page: their cells, and how many rows they have."""

import re

import pytest

from resctrl_hooks.observe.node.history.rows import SCHEMATA
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.energy import Share
from resctrl_hooks.observe.recording.noise import noisy
from resctrl_hooks.observe.recording.slowdown import slowed_pods
from resctrl_hooks.observe.recording.tables import energy_table, events_table, full_table, noisy_table, slowed_table

from .rows import L3, row_of, rows_of, slowdown


def cells(table: str) -> list[str]:
    return re.findall(r"<td[^>]*>(.*?)</td>", table)


def test_noisy_table_has_time_bandwidth_and_share() -> None:
    found = noisy(recording_of(rows_of({"loud": [0, 6, 6, 0], "other": [2, 2, 2, 2]}, 2)))
    time = "2026-01-01 01:00:02 UTC"
    assert cells(noisy_table(found)) == ["shop/loud", L3[0], time, "4 s", "6 GB/s", "75 %"]
    assert "more than 33% of a domain&#x27;s traffic" in noisy_table(found)
    assert "No noisy pods by this rule." in noisy_table([])


@pytest.mark.parametrize(
    "value, cell",
    [
        (None, "<td>-</td>"),
        (0.5, '<td class="number">0.5 J</td>'),
        (1800.4, '<td class="number">1800 J</td>'),
    ],
)
def test_energy_without_a_value_is_a_dash(monkeypatch: pytest.MonkeyPatch, value: float | None, cell: str) -> None:
    monkeypatch.setattr(
        "resctrl_hooks.observe.recording.tables.shares", lambda _: [Share("node", "", "packages", value)]
    )
    assert cell in energy_table(recording_of([]), None)


def test_only_numbers_with_a_unit_are_right_aligned() -> None:
    rows = [{**row, "pod": "0-web"} for row in rows_of({"uid": [0, 6]})]
    table = noisy_table(noisy(recording_of(rows)))
    assert [cell.split(">")[1] for cell in re.findall(r'<td class="number">[^<]*', table)] == ["1 s", "6 GB/s", "100 %"]


def test_table_has_at_most_fifty_rows_and_says_how_many_more() -> None:
    event = row_of(0, SCHEMATA, event="class batch")
    for number, note in ((50, ""), (53, '<p class="note">and 3 more.</p>')):
        table = events_table(recording_of([event] * number))
        assert (table.count("<td>class batch</td>"), table[table.index("</table></div>") + 14 :]) == (50, note)


def test_full_table_has_the_five_users_with_the_most_traffic() -> None:
    found = recording_of(rows_of({f"p{one}": [one + 10] * 20 for one in range(7)}))
    names = [f"shop/p{one} {(one + 10) * 20} GB ({(one + 10) / 91:.0%})" for one in (6, 5, 4, 3, 2)]
    assert cells(full_table(found, {"*": 100e9})) == [
        *(L3[0], "2026-01-01 01:00:00 UTC", "20 s", "~91%", ", ".join(names)),
    ]
    assert "The load is estimated" in full_table(found, {"*": 100e9})
    assert "No domain was full." in full_table(found, {"*": 1e12})
    huge = recording_of(rows_of({"web": [1000] * 20}))
    assert cells(full_table(huge, {"*": 1e12}))[-1] == "shop/web 20000 GB (100%)"


def test_slowed_table_has_unknown_causes_and_nobody_beside() -> None:
    bare = [{**row, "event": "", "culprits": ""} for row in slowdown([1.0, 1.5])]
    found = recording_of([*rows_of({"web": [1] * 2}), *bare])
    assert cells(slowed_table(slowed_pods(found, {}), found))[2:] == ["1.5 times", "unknown", "-"]
    calm = recording_of(slowdown([1.0, 1.0]))
    assert "No pod was slowed." in slowed_table(slowed_pods(calm, {}), calm)
