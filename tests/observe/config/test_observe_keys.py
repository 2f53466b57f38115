"""Keys of the guard, the history and diagnosis: accepted and refused values, with their messages."""

# ruff: noqa: E501  # a case and the line that the operator reads for it stand on one line

from typing import Any

import pytest
from conftest import Host
from core.config.judged import (
    assert_accepted_also_as_compiled,
    assert_like,
    assert_refused,
    assert_remarked,
    assert_remarked_here,
    cases,
    check,
    compiled,
    problems,
)
from project.contributed import REFERENCE

from resctrl_hooks.observe.config.guard import Protection

GUARD = "rdt: {guard: {%s}}"

REFUSED = [
    ("rdt: {guard: {protect: {a: {slow: 1}}}}", 'c.yaml:1: rdt.guard.protect.a.slow: unknown key; did you mean "slowdown"?'),
    ("rdt: {guard: {low: 0.9}}", "c.yaml:1: rdt.guard: low (0.9) is not below high (0.85); leave a gap, such as 0.70 and 0.85"),
    ("rdt: {guard: {protect: [a], throttle: {a: {floor: 20}}}}", "c.yaml:1: rdt.guard: 'a' is protected and throttled; name each class once"),
    ("history: {keep: {samples: 2h, minutes: 1h}}", "c.yaml:1: history.keep.minutes: minutes are deleted before samples become minutes; keep minutes longer"),
]  # fmt: skip

REMARKED = [
    ("history: {enabled: true, file: /data/h}", "history.file", "can write only below /var/lib/resctrl-hooks"),
    ("rdt: {enabled: true, guard: {mode: observe}}", "rdt.guard", "does nothing without classes"),
]  # fmt: skip


COMPILED = [
    ("history: {size: 20M}", ("history", "size"), 20 << 20),
    ("history: {size: 2Gi}", ("history", "size"), 2 << 30),
    ("history: {size: 20000k}", ("history", "size"), 20000 << 10),
    ("history: {size: '16777217'}", ("history", "size"), 16_777_217),
    ("history: {size: 1G}", ("history", "size"), 1 << 30),
    ("history: {interval: 1500ms}", ("history", "interval"), 1.5),
    ("history: {interval: 2m}", ("history", "interval"), 120),
    ("history: {interval: 1h}", ("history", "interval"), 3600),
    ("rdt: {guard: {mode: off}}", ("rdt", "guard", "mode"), "off"),
]  # fmt: skip

MACHINE = [
    ("rdt: {guard: {throttle: {a: {floor: 25}, b: {floor: 30}}}}", "rdt.guard.throttle.a.floor", "the floor is 30 on this machine, whose MB values are multiples of 10"),
    ("rdt: {guard: {throttle: {a: {floor: 5%}}}}", "rdt.guard.throttle.a.floor", "the floor is 10 on this machine"),
]  # fmt: skip

VALUES = [
    (GUARD % "interval: %s", "0.2 | 60 | 200ms | 1m", "0.1 | 61 | 100ms"),
    (GUARD % "low: 0.5, high: %s", "0.51 | 1", "0.5 | 0.4 | 1.1"),
    (GUARD % "low: %s", "0.1", "0 | -0.1"),
    (GUARD % "mode: %s", "off | observe | act | 'off'", "on | true"),
    (GUARD % "throttle: {a: {floor: %s}}", "20 | 20% | 2000MBps", "0 | x | true | [5]"),
    (GUARD % "protect: {a: {slowdown: %s}}", "1.2 | 10", "1.0 | 10.1"),
    ("history: {size: %s}", "16777216 | 16M | 16Mi | 1G | 1Gi | 16384k", "16777215 | 15M | 16m | 16MB | -1 | 1T | ''"),
    ("history: {keep: {samples: 1h, minutes: %s}}", "1h | 2h", "59m"),
    ("history: {interval: %s}", "1 | 1s", "0.9 | 999ms"),
]  # fmt: skip


@pytest.mark.parametrize("text, line", REFUSED)
def test_each_problem_has_line_and_remedy(text: str, line: str) -> None:
    assert_refused(text, line)


@pytest.mark.parametrize("text, key, words", REMARKED)
def test_ineffective_values_have_a_remark(text: str, key: str, words: str) -> None:
    assert_remarked(text, key, words)


@pytest.mark.parametrize("text", cases(VALUES, 1))
def test_value_is_accepted_also_as_compiled(text: str) -> None:
    assert_accepted_also_as_compiled(text)


@pytest.mark.parametrize("text", cases(VALUES, 2))
def test_value_is_refused(text: str) -> None:
    assert check(text).errors != []


@pytest.mark.parametrize("text, path, value", COMPILED)
def test_value_is_compiled(text: str, path: tuple[str | int, ...], value: Any) -> None:
    assert compiled(text, path) == value


@pytest.mark.parametrize("text, key, words", MACHINE)
def test_values_that_this_machine_changes_have_a_remark(host: Host, text: str, key: str, words: str) -> None:
    assert_remarked_here(host, text, key, words)


def test_null_is_the_empty_section_or_class_and_each_section_is_on_the_page() -> None:
    guard = "rdt: {classes: {gold: %s}, guard: {protect: {gold: %s}}}"
    assert_like(guard % ("", ""), guard % ("{}", "{}"))
    assert_like("slowdown:\nhistory:\n", "{}")
    (error,) = check("rdt: {guard: {throttle: {bronze: }}}").errors
    assert error.key == "rdt.guard.throttle.bronze"
    assert problems("history: {file: /data/h}") == []
    assert not any(Protection.model_validate({}).model_dump().values())
    assert "### `rdt.guard.protect`\n" in REFERENCE.reference()
