"""What commands say is the ledger's: `show` and `metrics`, and all pods and the root group together."""

from pathlib import Path

import pytest

from kernel.counted.said import TOTAL, Comparison, command, items
from kernel.counted.steps import copy
from kernel.counted.truth import ROOT
from kernel.pods import KubernetesPod

pytestmark = pytest.mark.counted


def test_all_together_are_the_machine(pods: list[KubernetesPod], comparison: Comparison, processor: str) -> None:
    installed, truth = comparison.installed, comparison.truth
    if processor == "AMD":  # for the sum the root group has to be counted, too
        installed.configure(monitoring={"classCounters": "keep", "events": [TOTAL]})
        installed.reconcile()
    root = [Path(ROOT, "mon_data", folder, TOTAL) for folder in ("mon_L3_00", "mon_L3_01")]

    def machine() -> int:
        return sum(int(path.read_text()) for path in root)

    began, real_began = machine(), truth.whole()
    for pod in pods[:2]:
        pod.run("c0", copy(100))
    # The machine is never at rest; what it does between these two is little against 200 MiB.
    comparison.hold("two pods and all the rest", machine() - began, truth.whole() - real_began)


def test_show_and_metrics(pods: list[KubernetesPod], comparison: Comparison) -> None:
    for pod in pods[:2]:
        pod.run("c0", copy(20))
    for pod in pods[:2]:
        what = f"pod {pod.uid[0]} of two, 20 MiB each"
        total = comparison.check(pod.uid, what)
        (shown,) = items(comparison.installed, "show", pod.uid)
        told = sum(one["value"] for one in shown["counters"] if one["counter"] == TOTAL)
        comparison.hold(f"{what}, says `show`", told, total)
        lines = [line for line in command(comparison.installed, "metrics").splitlines() if pod.uid in line]
        scraped = sum(float(line.split()[-1]) for line in lines if line.startswith("l3_mbm_total_bytes_total"))
        comparison.hold(f"{what}, says `metrics`", int(scraped), total)
