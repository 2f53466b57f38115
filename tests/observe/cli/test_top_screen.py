"""The screen of `top`: its picture at several widths, and the effect of each key."""

import io
import re

import pytest
from rich.console import Console

from resctrl_hooks.core.inventory.models import Rmids
from resctrl_hooks.observe.cli.bars import bar, sparkline
from resctrl_hooks.observe.cli.keyboard import first_key
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_screen import Screen
from resctrl_hooks.observe.inventory.rates import Line, added

MB, MIB = 1e6, 1 << 20
PODS = (
    ("shop", "checkout-7d9f8c6b54-x2x9z", "", 1.0),
    ("shop", "cart-5b8fd6f7c4-8m2lq", "", 2.0),
    ("batch", "reports-nightly-28913760-qtz7k", "", 6.0),
    ("shop", "catalog-66c9b7d5f-kk4vw", "", 1.0),
    ("payments", "payments-0", "gold", 0.5),
    ("openshift-cluster-node-tuning-operator", "tuned-9gdxc", "", 0.1),
)


def used(amount: float | None) -> dict[str, float | None]:
    if amount is None:
        return {}
    return {"llc": amount * MIB, "mbm": amount * 100 * MB, "local": amount * 75 * MB, "watts": amount * 4}


def scene(**amounts: float | None) -> Scene:
    lines = [
        Line("pod", f"{namespace}/{pod}", pod, used(amounts.get(namespace, amount)), namespace, pod, rdt_class)
        for namespace, pod, rdt_class, amount in PODS
    ]
    lines += [Line("foreign", "mon_groups/somebody", "", used(0.2)), Line("ungrouped", "(ungrouped)", "", used(0.7))]
    lines.append(added(lines, "total", "TOTAL"))
    return Scene("worker-3", "01:48:06", lines, 32 * MIB, Rmids(total=64, used=9), 1)


def screen() -> Screen:
    made = Screen(scene())
    made.update(scene())
    return made


def picture(made: Screen, width: int = 120, height: int = 24) -> list[str]:
    out = Console(file=io.StringIO(), width=width, height=height, record=True, color_system="truecolor")
    out.print(made.render(width, height))
    assert "worker-3" in out.export_svg(title="top", clear=False).replace("&#160;", " ")
    return out.export_text().splitlines()


def test_reason_of_a_node_without_counters_is_one_line_of_the_screen() -> None:
    made = screen()
    without = scene()
    without.absent = f"this node has no resctrl: {'a long reason ' * 12}"
    made.update(without)
    lines = picture(made, 80)
    assert lines[1].startswith("this node has no resctrl: ")
    assert len(lines) <= 24


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 200])
def test_every_width_has_expected_picture(width: int) -> None:
    lines = picture(screen(), width)
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= 24
    text = "\n".join(lines)
    assert re.match("worker-3  01:48:06  1.15 GB/s  RMIDs 9/64, 1 waiting", lines[0])
    for word in ("POD", "LLC", "MBM▾", "POWER", "qtz7k", "600 MB/s", "(ungrouped)", "TOTAL", "q quit", "? help"):
        assert word in text, word
    assert ("L3%" in text, "█" in text, "LOCAL" in text, "LAST" in text) == (
        width >= 66,
        width >= 76,
        width >= 96,
        width >= 130,
    )
    first = next(line for line in lines if "qtz7k" in line)
    assert lines.index(first) == 3, "the noisy one is first"


def test_narrow_terminal_keeps_pod_and_rate() -> None:
    lines = picture(screen(), 40)
    assert all(len(line) <= 40 for line in lines)
    assert lines[2].split() == ["POD", "MBM▾"]
    assert next(line for line in lines if "qtz7k" in line).rstrip().endswith("600 MB/s")


def test_picture_at_eighty_columns_is_as_expected() -> None:
    assert picture(screen(), 80)[:6] == [
        "worker-3  01:48:06  1.15 GB/s  RMIDs 9/64, 1 waiting  46.0 W                    ",
        "pod by mbm",
        "POD                                       LLC   L3%       MBM▾             POWER",
        "batch/reports-nig…ly-28913760-qtz7k  6.00 MiB   19%   600 MB/s  ████████    24 W",
        "shop/cart-5b8fd6f7c4-8m2lq           2.00 MiB  6.2%   200 MB/s  ██▋          8 W",
        "shop/catalog-66c9b7d5f-kk4vw         1.00 MiB  3.1%   100 MB/s  █▍           4 W",
    ]


def names(made: Screen, height: int = 24) -> list[str]:
    lines = picture(made, 200, height)
    end = next(place for place, line in enumerate(lines) if line.startswith(("(ungrouped)", "TOTAL")))
    return [line.split()[0] for line in lines[3:end]]


def test_t_key_cycles_grouping() -> None:
    made = screen()
    before = names(made)
    made.press("t")
    assert names(made) == ["batch", "shop", "payments", "(foreign", "openshift-cluster-node-tuning-operator"]
    assert "shop (3)" in "\n".join(picture(made))
    made.press("t")
    assert names(made) == ["/", "gold", "(foreign"]
    assert "/ (5)" in "\n".join(picture(made))
    made.press("t")
    assert names(made) == before


def test_r_key_reverses_the_order() -> None:
    made = screen()
    made.press("n")
    first, *_, last = names(made)
    made.press("r")
    found = names(made)
    assert (found[0], found[-1]) == (last, first)
    made.press("r")
    assert names(made)[0] == first


def test_filter_is_typed_kept_and_dropped() -> None:
    made = screen()
    for key in ("/", "q", "t", "z"):  # none of them is a command now
        made.press(key)
    assert not made.quit
    assert names(made) == ["batch/reports-nightly-28913760-qtz7k"]
    assert "filter: qtz_" in picture(made)[1]
    made.press("backspace")
    made.press("enter")
    assert "filter: qt   " in picture(made)[1] + "   "
    made.press("escape")
    assert len(names(made)) == 7
    made.press("q")
    assert made.quit


@pytest.mark.parametrize(
    "by, text, total",
    [
        ("", "", "1.15 GB/s"),
        ("", "ca", "300 MB/s"),  # cart, catalog
        ("", "CART", "200 MB/s"),
        ("", "a", "960 MB/s"),  # all but checkout, mon_groups/somebody and (ungrouped)
        ("", "ungrouped", "70.0 MB/s"),
        ("", "mon_groups", "20.0 MB/s"),
        ("", "none", "-"),
        ("t", "sho", "400 MB/s"),
        ("tt", "gold", "50.0 MB/s"),
    ],
)
def test_total_is_that_of_the_lines_above_and_the_first_line_of_the_node(by: str, text: str, total: str) -> None:
    made = screen()
    for key in [*by, *(["/", *text, "enter"] if text else [])]:
        made.press(key)
    lines = picture(made, 80)
    assert lines[0].startswith("worker-3  01:48:06  1.15 GB/s")
    (found,) = (line for line in lines if line.startswith("TOTAL"))
    assert re.sub("  +", "|", found).split("|")[3] == total


def test_space_pauses_and_resumes() -> None:
    made = screen()
    made.press(" ")
    made.update(scene(payments=50.0))
    assert "PAUSED" in picture(made)[1]
    assert names(made)[0] == "batch/reports-nightly-28913760-qtz7k"
    made.press(" ")
    made.update(scene(payments=50.0))
    assert names(made)[0] == "payments/payments-0"


def test_long_table_scrolls() -> None:
    made = screen()
    whole = names(made)
    assert len(whole) == 7
    assert names(made, height=11) == whole[:3]
    assert "1 to 3 of 7" in "\n".join(picture(made, height=11))
    for keys, first in (
        (["down"], 1), (["pagedown"], 4), (["pagedown"], 4), (["up"], 3), (["home"], 0), (["end"], 4), (["k", "j"], 4),
    ):  # fmt: skip
        for key in keys:
            made.press(key)
        assert names(made, height=11) == whole[first : first + 3], keys
    assert "(ungrouped)" in "\n".join(picture(made, height=11)), "the sums stay"
    assert len(names(made, height=5)) == 1
    made.press("end")
    assert names(made) == whole, "a larger terminal shows all"


def test_help_lists_keys_and_any_key_closes_it() -> None:
    made = screen()
    made.press("?")
    text = "\n".join(picture(made, 60))
    assert "filter by part of a name" in text
    assert "qtz7k" not in text
    made.press("x")
    assert "qtz7k" in "\n".join(picture(made, 60))


def test_lines_are_in_the_displayed_order_at_each_sample() -> None:
    made = screen()
    assert names(made)[:3] == ["batch/reports-nightly-28913760-qtz7k", "shop/cart-5b8fd6f7c4-8m2lq", PLACE]
    made.update(scene(shop=1.0, payments=1.05))
    assert names(made)[1] == "payments/payments-0", "105 MB/s is above 100 MB/s"
    order = [*names(made)]
    for noise in (0.999, 1.001, 1.004):
        made.update(scene(shop=noise, payments=1.05))
        assert names(made) == order, "all of them are shown as 100 MB/s"


PLACE = "shop/catalog-66c9b7d5f-kk4vw"


def test_unknown_value_is_a_dash_and_sorts_last() -> None:
    made = Screen(scene(batch=None))
    made.update(scene(batch=None))
    lines = picture(made)
    assert re.search(r"qtz7k +- +- +· +- +·", "\n".join(lines))
    assert names(made)[-1] == "batch/reports-nightly-28913760-qtz7k"


@pytest.mark.parametrize(
    "typed,keys",
    [
        ("q", ["q"]),
        ("wr", ["w", "r"]),
        ("\x1b[A\x1b[6~j", ["up", "pagedown", "j"]),
        ("\x1b", ["escape"]),
        ("\x1bOB", ["down"]),
        ("\x1b[99~x", ["", "x"]),
        ("\r\x7f", ["enter", "backspace"]),
    ],
)
def test_terminal_keys_have_names(typed: str, keys: list[str]) -> None:
    found = []
    while typed:
        key, typed = first_key(typed)
        found.append(key)
    assert found == keys


def test_bars_and_sparklines_match_values() -> None:
    assert [bar(share, 4) for share in (0.0, 0.5, 1.0, 2.0, 1 / 32, None)] == [
        "    ", "██  ", "████", "████", "▏   ", "·   ",
    ]  # fmt: skip
    assert sparkline([0.0, 5.0, None, 10.0], 10.0, 6) == "  ▁▅·█"
    assert sparkline([1.0, 2.0, 3.0], 0.0, 2) == "▁▁"


def past_scene(note: str = "") -> Scene:
    made = scene()
    made.past, made.note = "PAST 14:00:00 (2h ago)", note
    return made


def test_past_is_in_the_first_line_until_the_present_returns() -> None:
    made = screen()
    made.show(past_scene("no samples in the 10m before, so no rates"))
    lines = picture(made)
    assert lines[0].startswith("PAST 14:00:00 (2h ago)  worker-3")
    assert "no samples in the 10m before, so no rates" in lines[1]
    made.update(scene())
    assert picture(made)[0].startswith("PAST"), "a sample of the present does not end the past"
    made.show(None)
    assert picture(made)[0].startswith("worker-3  01:48:06")


def test_entered_time_is_asked_for_once() -> None:
    made = screen()
    for key in ("g", "1", "4", "x", "backspace", ":", "0", "0"):
        made.press(key)
        assert not made.takes_keys
    assert "go to time: 14:00_" in picture(made)[1]
    made.press("enter")
    assert (made.asked(), made.asked(), made.takes_keys) == ("14:00", "", True)
    made.press("g")
    made.press("escape")
    assert (made.asked(), made.takes_keys) == ("", True)


def test_message_stays_until_the_next_key() -> None:
    made = screen()
    made.show_message("no sample at 14:00")
    assert "no sample at 14:00" in picture(made)[1]
    made.press("down")
    assert "no sample at 14:00" not in picture(made)[1]


@pytest.mark.parametrize(
    "typed, key", [("\x1b[D", "left"), ("\x1bOC", "right"), ("\x1b[1;2D", "shift-left"), ("\x1b[1;2C", "shift-right")]
)
def test_arrows_of_the_past_have_names(typed: str, key: str) -> None:
    assert first_key(f"{typed}q") == (key, "q")
