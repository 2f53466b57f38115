"""The cause of a memtierd's end: its own output, from either place."""

import pytest
from conftest import ID
from hosts.memtierd import PANIC, MemtierdHost, panics

from resctrl_hooks.core.node.container.running import Running
from resctrl_hooks.core.node.container.runtimes import Found
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd import service
from resctrl_hooks.core.node.features.memtierd.ended import last_words

OUTPUT = panics().partition("<<END\n")[2].partition("END\n")[0]


@pytest.mark.parametrize(
    "output, said",
    [
        (OUTPUT, PANIC),
        (f"{OUTPUT}started\npanic: another one\n\ngoroutine 1 [running]:\n", "panic: another one"),
        (
            "fatal error: all goroutines are asleep - deadlock!\n\nmain.main()\n",
            "fatal error: all goroutines are asleep",
        ),
        (
            "".join(f"line {number}\n" for number in range(9)),
            "its last lines: line 4 / line 5 / line 6 / line 7 / line 8",
        ),
        ("", "its last lines: (none)"),
    ],
)
def test_last_output_lines_are_returned(output: str, said: str) -> None:
    assert last_words(output).startswith(said)


def test_last_lines_of_service_come_from_journal(node: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "last_lines", lambda *_: OUTPUT)
    node.start()
    step = node.step()
    step.parameters["supervisor"] = memtierd.SYSTEMD
    container = Running("", Found(ID, 100, 1000, ""), {}, recorded=True)
    assert memtierd.FEATURE.lost(step, container, node.host.context()) == PANIC


def test_memtierd_that_never_started_is_not_lost(node: MemtierdHost) -> None:
    names = ["shop", "web-0", "c0"]
    for supervisor in (memtierd.SYSTEMD, memtierd.PROCESS):
        needs = {"runDir": str(node.run_dir), "names": names, "supervisor": supervisor}
        container = Running("", Found(ID, 100, 1000, ""), {}, recorded=True)
        assert memtierd.FEATURE.lost(Step(memtierd.NAME, "start", needs, ""), container, node.host.context()) == ""
