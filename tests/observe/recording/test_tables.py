"""The words and tables of a page as a whole text, and how many rows they have."""

import re

import pytest
from golden import Golden

from resctrl_hooks.observe.node.history.rows import GUARD, PACKAGE, SCHEMATA, Row
from resctrl_hooks.observe.recording import tables
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.energy import Share
from resctrl_hooks.observe.recording.noise import noisy
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.slowdown import slowed_pods
from resctrl_hooks.observe.recording.tables import (
    energy_table,
    events_table,
    full_table,
    gaps_table,
    noisy_table,
    slowed_table,
)

from .rows import L3, lost, memory, row_of, rows_of, slowdown, turns


def words(page: str) -> str:
    """Return the texts of a page without its scripts and styles, a line for each block or row."""
    page = re.sub(r"(?s)<(script|style).*?</\1>|<!--.*?-->", "", page)
    page = re.sub(r"<t[dh][^>]*>", "", re.sub(r"</t[dh]>", " | ", re.sub(r"\s+", " ", page)))
    return "\n".join(line.strip() for line in re.sub(r"<[^>]*>", "\n", page).split("\n") if line.strip())


def test_page_of_a_night_has_all_answers_and_tables(golden: Golden) -> None:
    """A noisy pod fills the memory and slows another; limits change, samples are missing, energy is counted."""
    moved = {"etl": [1.0, *[80.0] * 3, *[1.0] * 6], "web": [5.0, *[3.0] * 3, *[5.0] * 6], "0-job": [2.0] * 10}
    rows: list[Row] = [
        *(row for row in rows_of(moved, domains=L3) if str(row["time"])[17:19] not in ("07", "08", "09")),
        *memory([8, 86, 86, 86, 8, 8]),
        *slowdown([1.0, 1.6, 1.7, 1.6, 1.0]),
        *lost("shop", "batch", [5.0, 5.4, 6.1]),
        *lost("", "shop", [0.0, 0.4]),
        row_of(2, GUARD, "lower", rdt_class="batch", event="lower <batch> to 50"),
        row_of(3, SCHEMATA, rdt_class="batch", event="class batch: L3 fff to 00f"),
        row_of(4, "rest", "", domain=L3[1], mbm_total_bytes=None, missing="mbm_total_bytes:Unavailable"),
    ]
    for second in (0, 10):
        rows += [
            row_of(second, key=key, domain="mon_PERF_PKG_00", core_energy_joules=1800.0 * second * factor)
            for key, factor in (("etl", 2), ("web", 1))
        ]
        rows.append(row_of(second, "rest", "", domain="mon_PERF_PKG_00", core_energy_joules=500.0 * second))
        rows.append(row_of(second, PACKAGE, "package-0", domain="package-0", package_energy_joules=9000.0 * second))
    golden(words(page_of(recording_of(rows), 500)), "night")
    golden(words(page_of(recording_of(turns(20)))), "turns")
    quiet = page_of(recording_of([*rows_of({"web": [1.0] * 3}), *slowdown([1.0, 1.0])]))
    golden(words(quiet), "quiet")


def test_page_has_the_rules_of_dark_style_phone_and_print() -> None:
    page = page_of(recording_of(rows_of({"web": [1.0] * 3})))
    assert '<meta name="viewport" content="width=device-width' in page
    for rule in ("screen and (prefers-color-scheme: dark)", "screen and (max-width: 700px)", "@media print"):
        assert rule in page
    assert page.index('class="answer"') < page.index('class="chart"')


def test_only_numbers_with_a_unit_are_right_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**row, "pod": "0-web"} for row in rows_of({"uid": [0, 6]})]
    table = noisy_table(noisy(recording_of(rows)))
    assert [cell.split(">")[1] for cell in re.findall(r'<td class="number">[^<]*', table)] == ["1 s", "6 GB/s", "100 %"]
    for value, cell in ((None, "<td>-</td>"), (0.5, '<td class="number">0.5 J</td>'), (1800.4, ">1800 J</td>")):
        monkeypatch.setattr(tables, "shares", lambda _, value=value: [Share("node", "", "packages", value)])
        assert cell in energy_table(recording_of([]), None)


def test_table_has_at_most_fifty_rows_and_says_how_many_more() -> None:
    event = row_of(0, SCHEMATA, event="class batch")
    for number, note in ((50, ""), (53, '<p class="note">and 3 more.</p>')):
        table = events_table(recording_of([event] * number))
        assert (table.count("<td>class batch</td>"), table[table.index("</table></div>") + 14 :]) == (50, note)


def test_full_table_has_the_five_users_with_the_most_traffic() -> None:
    found = recording_of(rows_of({f"p{one}": [one + 10] * 20 for one in range(7)}))
    names = [f"shop/p{one} {(one + 10) * 20} GB ({(one + 10) / 91:.0%})" for one in (6, 5, 4, 3, 2)]
    assert f"<td>{', '.join(names)}</td>" in full_table(found, {"*": 100e9})
    assert "The load is estimated" in full_table(found, {"*": 100e9})
    huge = recording_of(rows_of({"web": [1000] * 20}))
    assert "<td>shop/web 20000 GB (100%)</td>" in full_table(huge, {"*": 1e12})


def test_empty_tables_say_so() -> None:
    calm = recording_of([*rows_of({"web": [1]}), *slowdown([1.0, 1.0])])
    assert "No noisy pods by this rule." in noisy_table([])
    assert "No domain was full." in full_table(calm, {"*": 1e12})
    assert full_table(calm, {}) == ""
    assert "No pod was slowed." in slowed_table(slowed_pods(calm, {}), calm)
    assert "Every counter had a value" in gaps_table(calm)
    bare = [{**row, "event": "", "culprits": ""} for row in slowdown([1.0, 1.5])]
    found = recording_of([*rows_of({"web": [1] * 2}), *bare])
    assert ">1.5 times</td><td>unknown</td><td>-</td>" in slowed_table(slowed_pods(found, {}), found)
