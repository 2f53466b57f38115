"""Values of commands match the ledger: `show`, `metrics`, `top`, and the sum of all pods and the root group."""

import json
import subprocess
from pathlib import Path
from typing import Any

from kernel.counted.conftest import COUNTED, EACH_ONCE
from kernel.counted.said import TOTAL, Comparison
from kernel.counted.steps import Stepped, at_rest, copy, in_steps
from kernel.counted.truth import ROOT
from kernel.pods import KubernetesPod

HOUSES = ("observe",)
pytestmark = [*COUNTED, EACH_ONCE]


def test_sum_of_all_pods_equals_machine(pods: list[KubernetesPod], comparison: Comparison, processor: str) -> None:
    installed, truth = comparison.installed, comparison.truth
    if processor == "AMD":  # for the sum the root group has to be counted, too
        installed.configure(monitoring={"classCounters": "keep", "events": [TOTAL]})
        installed.reconcile()
    root = [Path(ROOT, "mon_data", folder, TOTAL) for folder in ("mon_L3_00", "mon_L3_01")]

    def machine() -> int:
        return sum(int(path.read_text()) for path in root)

    began, real_began = machine(), truth.whole()
    for pod in pods[:2]:
        pod.run("c0", copy(50))
    # The machine is never idle; its traffic between these two is small against 100 MiB.
    comparison.hold("two pods and all the rest", machine() - began, truth.whole() - real_began)


def test_show_and_metrics_match_traffic(pods: list[KubernetesPod], comparison: Comparison) -> None:
    both = pods[:2]
    for size, pod in enumerate(both, 1):
        pod.run("c0", copy(10 * size))
    shown = {one["key"]: one["counters"] for one in comparison.installed.items("show", *(pod.uid for pod in both))}
    metrics = comparison.installed.prints("metrics").splitlines()
    for size, pod in enumerate(both, 1):
        what = f"one of two, {10 * size} MiB"
        total = comparison.check(pod.uid, what)
        told = sum(one["value"] for one in shown[pod.uid] if one["counter"] == TOTAL)
        comparison.hold(f"{what}, says `show`", told, total)
        lines = [line for line in metrics if line.startswith("l3_mbm_total_bytes_total{") and pod.uid in line]
        comparison.hold(f"{what}, says `metrics`", int(sum(float(line.split()[-1]) for line in lines)), total)


def test_top_matches_traffic(pods: list[KubernetesPod], comparison: Comparison) -> None:
    pod = pods[0]
    container = Stepped(pod.start("c0", in_steps(copy(50))))
    container.rest()
    rmid = comparison.rmid(pod.uid)
    words = ["resctrl-hook", "--config", comparison.installed.config, "top", "-o", "json", "-w", "--interval", "5"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        try:
            said = _bytes(top.stdout.readline(), pod.uid)
            assert said == 0.0, "it waits"
            before = sum(at_rest(comparison.truth, rmid))
            container.step()
            moved = sum(at_rest(comparison.truth, rmid)) - before
            total = 0.0
            while said or not total:
                said = _bytes(top.stdout.readline(), pod.uid)
                total += said
        finally:
            top.terminate()
    comparison.hold("copies 50 MiB, says `top`", round(total), moved)


def _bytes(line: str, key: str) -> float:
    """Return a pod's bytes between two lines of `top`."""
    found: dict[str, Any] = json.loads(line)
    (item,) = [item for item in found["items"] if item["key"] == key]
    return float(item["memoryBandwidthBytesPerSecond"]) * float(found["seconds"])
