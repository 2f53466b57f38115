"""Pods with bursts in turns: what `show`, `top` and `record` derive, next to the accesses that the program made.

Only figures for a page: one window of a minute proves nothing about an interval of 95 %.
"""

import time
from itertools import pairwise
from pathlib import Path

import pytest

from kernel.bundles import steady_program
from kernel.groups import Resctrl
from kernel.test_turns import Pod, context_of
from resctrl_hooks.inventory.interval import interval_of
from resctrl_hooks.inventory.rates import of_pod
from resctrl_hooks.inventory.snapshot import take
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options

BURSTS = """
while :; do
    end=$(($(date +%s%N) + $1))
    while [ $(date +%s%N) -lt $end ]; do "$0"; echo >>"$3"; done
    sleep $2
done
"""
"""A pod's shell script: it runs a program of known accesses repeatedly for some nanoseconds, then it sleeps."""
ACCESSES = 5_000_000
LINE = 64  # bytes
WINDOW = 60.0


@pytest.mark.measures
@pytest.mark.guest(rmids=4, count=1, cpus=1)
@pytest.mark.parametrize("load, idle, interval", [(2.0, 4.0, 1.0), (0.9, 2.1, 1.0), (4.0, 8.0, 6.0)])
def test_pod_with_bursts_has_no_false_zero_in_turns(
    resctrl: Resctrl, tmp_path: Path, load: float, idle: float, interval: float
) -> None:
    """Two pods take turns on one RMID; a program's number of accesses is the truth."""
    program, log = tmp_path / "steady", tmp_path / "log"
    steady_program(program, ACCESSES)
    for number in range(2):
        resctrl.make(group=f"taken{number}")
    log.touch()
    words = ["/bin/sh", "-c", BURSTS, str(program), str(int(load * 1e9)), str(idle), str(log)]
    pods = [Pod(0, tmp_path, words), Pod(1, tmp_path, ["/bin/sleep", "1000"])]
    context = context_of(tmp_path, resctrl)
    context.settings.monitoring["share"]["interval"] = interval
    try:
        reconcile(context, Options())
        begun, before = time.monotonic(), log.stat().st_size
        looks = []
        while time.monotonic() - begun < WINDOW:
            looks.append(take(context))
            time.sleep(interval / 3)
            reconcile(context, Options())
        seconds, moved = time.monotonic() - begun, LINE * ACCESSES * (log.stat().st_size - before)
    finally:
        for pod in pods:
            pod.process.kill()
            pod.process.wait()
    key, truth = pods[0].key, moved / seconds
    found = interval_of(take(context).turns.get(key, ()))
    rates = [of_pod(one, other, key) for one, other in pairwise(looks)]
    unknown = sum(one.total is None for one in rates)
    waiting = sum(key not in look.held for look in looks[1:])
    zeros = sum(
        one.total == 0 and key not in first.held and key not in last.held
        for one, (first, last) in zip(rates, pairwise(looks), strict=True)
    )
    shown = "no interval" if found is None else f"{found.rate / 1e6:.1f} ± {found.half / 1e6:.1f} MB/s"
    print(
        f"MEASURED {load:g} s of {load + idle:g} s, turns of {interval:g} s, {seconds:.0f} s: {shown}, truth "
        f"{truth / 1e6:.1f} MB/s; {len(rates)} samples, {waiting} while it waited, {unknown} without a rate, "
        f"{zeros} false zeros"
    )
    assert not zeros
