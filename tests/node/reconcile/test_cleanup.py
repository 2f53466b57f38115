"""What a killed writer leaves, and who clears it away."""

import os
import time

from conftest import Host

from resctrl_hooks.node.reconcile.cleanup import remove_unfinished
from resctrl_hooks.node.reconcile.reconcile import reconcile


def test_only_what_nobody_writes_any_more_goes(host: Host) -> None:
    host.process(4712)
    host.state.mkdir(parents=True)
    long_ago = time.time() - 100
    for name in ("placement~4711", "counters~4711", "wake~4712", "wake~4711", "book", "odd~", "~odd"):
        (host.state / name).touch()
        if name != "wake~4711":  # just written, so by somebody whose pid is of another namespace
            os.utime(host.state / name, (long_ago, long_ago))
    assert remove_unfinished(str(host.state), str(host.proc)) == 2
    assert sorted(os.listdir(host.state)) == ["book", "odd~", "wake~4711", "wake~4712", "~odd"]
    assert remove_unfinished("/nowhere", str(host.proc)) == 0


def test_reconcile_clears_them_away(host: Host) -> None:
    host.context().ledger.prepare()
    left = host.state / "placement~4711"
    left.touch()
    os.utime(left, (0, 0))
    assert reconcile(host.context()).tidied == 1
    assert not left.exists()
