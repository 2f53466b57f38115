"""The screen of `top`: its picture at several widths, and any keys on any node."""

import io
import re
from typing import Any

import pytest
from conftest import examples
from golden import Golden
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from rich.console import Console
from rich.text import Text

from resctrl_hooks.core.inventory.models import Rmids
from resctrl_hooks.observe.cli import top_state
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_screen import Page, Screen
from resctrl_hooks.observe.cli.top_state import PAST_KEYS, SORT_KEYS, Mode, State
from resctrl_hooks.observe.inventory.limited import PodLimit
from resctrl_hooks.observe.inventory.rates import Line, added
from resctrl_hooks.observe.inventory.usage_models import MemoryUsage

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
    return {"llc": amount * (1 << 20), "mbm": amount * 1e8, "local": amount * 75e6, "watts": amount * 4}


def scene(**amounts: float | None) -> Scene:
    lines = [
        Line("pod", f"{namespace}/{pod}", pod, used(amounts.get(namespace, amount)), namespace, pod, rdt_class)
        for namespace, pod, rdt_class, amount in PODS
    ]
    lines += [Line("foreign", "mon_groups/somebody", "", used(0.2)), Line("ungrouped", "(ungrouped)", "", used(0.7))]
    lines.append(added(lines, "total", "TOTAL"))
    return Scene("worker-3", "01:48:06", lines, 32 << 20, Rmids(total=64, used=9), 1)


def screen(*keys: str) -> Screen:
    made = Screen(scene())
    made.update(scene())
    for key in keys:
        made.press(key)
    return made


def picture(made: Screen, width: int = 120, height: int = 24) -> list[str]:
    out = Console(file=io.StringIO(), width=width, height=height, record=True, color_system="truecolor")
    out.print(made.render(width, height))
    assert "worker-3" in out.export_svg(title="top", clear=False).replace("&#160;", " ")
    return out.export_text().splitlines()


def names(made: Screen, height: int = 24) -> list[str]:
    lines = picture(made, 150, height)
    end = next(place for place, line in enumerate(lines) if line.startswith(("(ungrouped)", "TOTAL")))
    return [line.split()[0] for line in lines[3:end]]


BATCH = "batch/reports-nightly-28913760-qtz7k"


def test_pictures(golden: Golden) -> None:
    for width in (40, 80, 120, 200):
        made = screen("down", "down")
        for amount in (2.0, 7.0, 4.0):
            made.update(scene(batch=amount))
        made.scene.lines[4].limited = [PodLimit(values=["cpu.weight 100 -> 10"], owner="root", reason="", ends=None)]
        golden("\n".join(line.rstrip() for line in picture(made, width)), f"{width} columns")
    for keys, label in ((["t"], "by namespace"), (["?"], "help")):
        golden("\n".join(line.rstrip() for line in picture(screen(*keys), 80)), label)
    unknown = scene(batch=None)
    unknown.absent = f"this node has no resctrl: {'a long reason ' * 12}"
    made = Screen(unknown)
    made.update(unknown)
    golden("\n".join(line.rstrip() for line in picture(made, 80)), "unknown values")


KEYS = (
    *SORT_KEYS, *PAST_KEYS, *"qtr/gd?hjkpy x0", "up", "down", "pageup", "pagedown", "home", "end", "enter", "escape",
    "backspace", "", *(f"click {line}" for line in range(0, 30, 3)),
)  # fmt: skip


class AnyKeys(RuleBasedStateMachine):
    """Any keys and samples on a terminal of any size: pods come and go, pages open, limits are planned or refused."""

    @initialize(width=st.integers(10, 250), height=st.integers(5, 40))
    def begin(self, width: int, height: int) -> None:
        self.size = width, height
        self.screen = Screen(Scene("worker-3", "01:48:06", []))

    @rule(pods=st.sets(st.sampled_from([f"{space}/{pod}" for space in ("a", "bx") for pod in range(12)])))
    def sample(self, pods: set[str]) -> None:
        lines = [Line("pod", name, f"key-{name}", used(len(name)), name.partition("/")[0], name) for name in pods]
        rest = [Line("ungrouped", "(ungrouped)", "", used(0.7))]
        memory = [memory_of(2e9)] if len(pods) % 2 else []
        lines = [*lines, *rest, added([*lines, *rest], "total", "TOTAL")]
        self.screen.update(Scene("worker-3", "01:48:06", lines, 32 << 20, Rmids(total=64, used=9), memory=memory))
        assert len(self.screen._history) <= 3 * len(lines), "ended pods are forgotten"

    @rule(width=st.integers(10, 250), height=st.integers(5, 40))
    def resize(self, width: int, height: int) -> None:
        self.size = width, height

    @rule(key=st.sampled_from(KEYS), fails=st.booleans())
    def press(self, key: str, fails: bool) -> None:
        before, names = self.screen.state, {line.key: line.name for line in self.screen.shown.lines}
        effect = self.screen.press(key)
        after = self.screen.state
        if before.mode is Mode.TABLE and (key in SORT_KEYS or key == "r") and before.selected in names:
            assert after.selected == before.selected, "the order changes, the selected pod stays"
        if before.mode is Mode.FILTER and before.selected in names and after.filter != before.filter:
            found = after.filter.lower() in names[before.selected].lower() and before.by == "pod"
            self.screen.render(*self.size)
            assert not found or self.screen.state.selected == before.selected, "a pod that passes the filter stays"
        if effect is None:
            return
        if fails:
            self.screen.show_message("refused")
        elif effect.name == top_state.OPEN:
            assert names.get(effect.text)
            self.screen.page = Page([Text("line")] * 50, "--cpu 50%")
        elif effect.name == top_state.PLAN:
            self.screen.ask(["pod would be limited"])
        elif effect.name == top_state.APPLY:
            assert before.mode is Mode.QUESTION
            assert key == "y"
        elif effect.name in (top_state.MOVE, top_state.PRESENT):
            self.screen.past = self.screen.scene if effect.name == top_state.MOVE else None

    @invariant()
    def picture_is_whole_and_a_selected_row_is_in_view(self) -> None:
        width, height = self.size
        out = Console(file=io.StringIO(), width=width, height=height, color_system="truecolor", force_terminal=True)
        lines = out.render_lines(self.screen.render(width, height), out.options.update(height=None), pad=False)
        assert max(sum(one.cell_length for one in line) for line in lines) <= width
        state = self.screen.state
        if state.mode is Mode.HELP or height < 14:
            return  # a long text is cut by the terminal
        assert len(lines) <= height
        marked = [line for line in lines[1:] if line and line[0].style and line[0].style.reverse]
        if state.mode in (Mode.TABLE, Mode.FILTER, Mode.TIME):
            assert len(marked) == bool(state.selected)
            assert not state.selected or any(line.kind == "pod" for line in self.screen.shown.lines)


TestAnyKeys = AnyKeys.TestCase
TestAnyKeys.settings = settings(max_examples=examples(15), stateful_step_count=25)


def memory_of(capacity: float) -> MemoryUsage:
    values: dict[str, Any] = {"domain": 0, "l3": [0], "memory_bandwidth_bytes_per_second": 1e9, "estimated": False}
    return MemoryUsage(**values, capacity_bytes_per_second=capacity, load_percent=50.0, pods=[])


def test_filter_is_typed_kept_and_dropped() -> None:
    made = screen("/", "q", "t", "z")  # none of them is a command now
    assert (made.state.quit, names(made)) == (False, [BATCH])
    assert "filter: qtz_" in picture(made)[1]
    made.press("backspace")
    made.press("enter")
    assert "filter: qt   " in picture(made)[1] + "   "
    made.press("escape")
    assert len(names(made)) == 7
    made.press("q")
    assert made.state.quit


TOTALS = [
    *(("", "", "1.15 GB/s"), ("", "ca", "300 MB/s"), ("", "CART", "200 MB/s"), ("", "ungrouped", "70.0 MB/s")),
    *(("", "mon_groups", "20.0 MB/s"), ("", "none", "-"), ("t", "sho", "400 MB/s"), ("tt", "gold", "50.0 MB/s")),
    ("", "a", "960 MB/s"),  # all but checkout, mon_groups/somebody and (ungrouped)
]


@pytest.mark.parametrize("by, text, total", TOTALS)
def test_total_is_that_of_the_lines_above_and_the_first_line_of_the_node(by: str, text: str, total: str) -> None:
    lines = picture(screen(*by, *(["/", *text, "enter"] if text else [])), 80)
    assert lines[0].startswith("worker-3  01:48:06  1.15 GB/s")
    (found,) = (line for line in lines if line.startswith("TOTAL"))
    assert re.sub("  +", "|", found).split("|")[3] == total


def test_space_pauses_a_click_selects_and_enter_opens() -> None:
    made = screen(" ")
    made.update(scene(payments=50.0))
    assert "PAUSED" in picture(made)[1]
    assert names(made)[0] == BATCH
    made.press(" ")
    made.update(scene(payments=50.0))
    assert names(made)[0] == "payments/payments-0"
    made = screen()
    top = next(at for at, line in enumerate(picture(made)) if line.startswith(BATCH))
    assert [made.press(f"click {top + 1}"), made.press(f"click {top - 1}"), made.press("click 99")] == [None] * 3
    assert made.state.selected == "cart-5b8fd6f7c4-8m2lq"
    assert made.press(f"click {top + 1}") == (top_state.OPEN, "cart-5b8fd6f7c4-8m2lq")
    made = screen("t", "enter")
    assert (names(made), made.state.by) == ([BATCH], "pod")
    made.press("escape")
    made.state = State(by="class")
    assert made.press("enter") is None
    assert "only pods and namespaces" in made.state.message
    made.state, made.past = State(), scene()
    assert made.press("enter") is None
    assert "End returns" in made.state.message


def test_selection_scrolls_and_begins_with_the_first_key() -> None:
    made = screen()
    whole = names(made)
    assert (names(made, height=11), made.state.selected) == (whole[:3], "")
    assert "1 to 3 of 7" in "\n".join(picture(made, height=11))
    for keys, place, first in (
        ("down", 0, 0), ("down down", 2, 0), ("j", 3, 1), ("pagedown", 6, 4), ("up k", 4, 4), ("home", 0, 0),
        ("end", 6, 4), ("pageup", 3, 3),
    ):  # fmt: skip
        for key in keys.split():
            made.press(key)
        assert (names(made, height=11), made.state.place) == (whole[first : first + 3], place), keys
    assert "(ungrouped)" in "\n".join(picture(made, height=11)), "the sums stay"
    made.press("escape")
    assert (names(made, height=11), made.state.selected) == (whole[:3], ""), "the largest pods are in view again"


def test_pods_page_scrolls_and_limits_after_a_question() -> None:
    made = screen()
    assert made.press("enter") == (top_state.OPEN, "reports-nightly-28913760-qtz7k")
    made.page = Page([Text(f"line {number}") for number in range(50)], "--cpu 50%")
    shown = picture(made, 80, 12)
    assert [shown[1].split()[0], shown[2].split()[1:5], shown[3]] == ["POD", ["6.00", "MiB", "19%", "600"], "line 0"]
    made.press("pagedown")
    made.press("down")
    assert (picture(made, 80, 12)[3], picture(made, 80, 12)[-2].rstrip()) == ("line 7", "lines 8 to 13 of 50")
    made.press("end")
    assert "line 49" in picture(made, 80, 12)
    for key in ("l", "backspace", "backspace", "5", "%"):
        made.press(key)
    assert "limit: --cpu 55%_" in picture(made)
    assert made.press("enter") == (top_state.PLAN, "--cpu 55%")
    made.ask(["batch/reports would be limited"])
    assert "batch/reports would be limited" in picture(made)
    assert (made.press("n"), made.state.mode) == (None, Mode.POD)
    made.ask([])
    assert (made.press("y"), made.state.mode) == ((top_state.APPLY, ""), Mode.POD)
    made.press("escape")
    assert names(made)[0] == BATCH


def test_past_is_shown_until_the_present_returns_and_a_message_until_the_next_key() -> None:
    made, past = screen(), scene()
    past.past, past.note = "PAST 14:00:00 (2h ago)", "no samples in the 10m before, so no rates"
    made.past = past
    lines = picture(made)
    assert lines[0].startswith("PAST 14:00:00 (2h ago)  worker-3")
    assert "no samples in the 10m before, so no rates" in lines[1]
    made.update(scene())
    assert picture(made)[0].startswith("PAST"), "a sample of the present does not end the past"
    assert made.press("end") == (top_state.PRESENT, "")
    made = screen("g", "1", "4", "x", "backspace", ":", "0", "0")
    assert "go to time: 14:00_" in picture(made)[1]
    assert made.press("enter") == (top_state.TIME, "14:00")
    assert (made.press("g"), made.press("escape")) == (None, None)
    made.show_message("no sample at 14:00")
    assert "no sample at 14:00" in picture(made)[1]
    made.press("down")
    assert "no sample at 14:00" not in picture(made)[1]
