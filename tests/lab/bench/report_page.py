"""The report of a long recording: bytes, seconds of a processor to build, and seconds until Chromium has drawn it.

    PYTHONPATH=.:tests python tests/lab/bench/report_page.py [--pods 300] [--hours 24] [--step 60] -o long.csv

The recording is written unless it exists. Its first pod slows the two next ones for a fifth of the time.
"""

import argparse
import csv
import math
import random
import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from resctrl_hooks.observe.node.history.rows import GUARD, LABELS, MEMORY, PACKAGE, POD, REST, SCHEMATA, SLOWED
from resctrl_hooks.observe.recording.files import read
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.reading import recording_of

START = datetime(2026, 11, 24, 0, tzinfo=UTC)
NAMES = ("batch/reports-nightly", "shop/cart", "shop/web", "shop/search", "ml/train-0", "infra/ingress")
VALUES = (
    *("llc_occupancy_bytes", "mbm_total_bytes", "core_energy_joules", "counted_seconds", "slowdown_ratio"),
    *("memory_bytes_per_second", "capacity_bytes_per_second", "package_energy_joules", "l3_size_bytes"),
)
CACHE, CAPACITY = 60 << 20, 100e9


def write(path: str, pods: int, hours: float, step: int) -> None:
    """Write a recording in which the first pod slows the two next ones, until a limit ends it."""
    names = [*NAMES, *(f"apps/app-{one}" for one in range(len(NAMES), pods))][:pods]
    rates = [3e9, 8e9, 6e9, 4e9, 5e9, 2e9, *(2e10 / (2 + one) ** 1.3 for one in range(pods))][:pods]
    samples, random_ = int(hours * 3600 / step), random.Random(7)
    noisy = range(samples * 2 // 5, samples * 3 // 5)
    moved: dict[tuple[int, int], float] = {}
    joules: dict[tuple[int, int], float] = {}
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, (*LABELS, *VALUES), restval="")
        out.writeheader()
        for at in range(samples + 1):
            when = (START + timedelta(seconds=at * step)).isoformat(timespec="milliseconds")
            wave = 1 + 0.4 * math.sin(at / samples * 6 * math.pi)

            def put(kind: str, domain: str, _when: str = when, /, **values: Any) -> None:
                out.writerow({"time": _when, "host": "worker-3", "kind": kind, "domain": domain, **values})

            for number in range(2):
                domain = f"mon_L3_{number:02d}"
                shares = []
                for one in range(pods):
                    rate = rates[one] * wave * random_.uniform(0.8, 1.2) * (1 if number == one % 2 else 0.2)
                    if one == 0 and at in noisy and number == 0:
                        rate = 6.5e10 * random_.uniform(0.9, 1.1)
                    shares.append(rate)
                loud = shares[0]
                room = (0.96 * CAPACITY - 1e9 - loud) / max(sum(shares) - loud, 1)
                shares = [loud, *(rate * min(room, 1) for rate in shares[1:])]
                total = sum(shares)
                for one, name in enumerate(names):
                    space, pod = name.split("/")
                    labels = {"key": f"uid-{one}", "namespace": space, "pod": pod, "rdt_class": ""}
                    moved[one, number] = moved.get((one, number), 0.0) + shares[one] * step
                    size = int(0.9 * CACHE * shares[one] / total)
                    counted = {"llc_occupancy_bytes": size, "mbm_total_bytes": int(moved[one, number])}
                    put(POD, domain, **labels, **counted, counted_seconds=at * step)
                    joules[one, number] = joules.get((one, number), 0.0) + 0.2e-9 * shares[one] * step + 0.05 * step
                    core = {"core_energy_joules": round(joules[one, number], 1)}
                    put(POD, f"mon_PERF_PKG_{number:02d}", **labels, **core, counted_seconds=at * step)
                rest = {"llc_occupancy_bytes": int(0.05 * CACHE), "mbm_total_bytes": int(1e9 * at * step)}
                put(REST, domain, **rest, l3_size_bytes=CACHE)
                put(REST, f"mon_PERF_PKG_{number:02d}", core_energy_joules=2.0 * at * step)
                whole = sum(of for (_, where), of in joules.items() if where == number)
                put(PACKAGE, f"package-{number}", key=f"package-{number}", package_energy_joules=round(1.3 * whole, 1))
                load = {"memory_bytes_per_second": total + 1e9, "capacity_bytes_per_second": CAPACITY}
                put(MEMORY, domain, key=domain, event="measured", **load)
            for one, most in ((1, 1.72), (2, 1.31)):
                ratio = most * random_.uniform(0.95, 1.03) if at in noisy else random_.uniform(0.98, 1.06)
                why = {"event": "memory-bandwidth", "culprits": "uid-0"} if at in noisy else {}
                labels = {"key": f"uid-{one}", "namespace": "shop", "pod": NAMES[one].split("/")[1]}
                put(SLOWED, "mon_L3_00", **labels, **why, slowdown_ratio=round(ratio, 3))
            if at == noisy.start + len(noisy) // 2:
                text = "would lower MB of class batch on memory domain 0 from 100 to 90 (per cent): load 95%"
                put(GUARD, "mon_L3_00", key="lower", rdt_class="batch", event=text)
            if at == noisy.stop:
                put(SCHEMATA, "mon_L3_00", key="schemata", rdt_class="batch", event="class batch: MB 100 to 30")


def drawn(page: Path) -> float:
    """Return the seconds until Chromium has drawn the page, its own start (that of an empty page) subtracted."""
    empty = page.with_name("empty.html")
    empty.write_text("<!DOCTYPE html>")
    seconds = []
    for one in (empty, page):
        command = [shutil.which("chromium") or "chromium", "--headless", "--no-sandbox", "--disable-gpu"]
        command += ["--window-size=1280,900", f"--screenshot={page.with_suffix('.png')}", one.resolve().as_uri()]
        started = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.monotonic() - started)
    return seconds[1] - seconds[0]


def main() -> None:
    """Write the recording unless it exists, build the page, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--step", type=int, default=60)
    parser.add_argument("-o", "--output", required=True)
    chosen = parser.parse_args()
    if not Path(chosen.output).exists():
        write(chosen.output, chosen.pods, chosen.hours, chosen.step)
    started = time.process_time()
    found = recording_of(read(chosen.output))
    was_read = time.process_time()
    page = Path(chosen.output).with_suffix(".html")
    page.write_text(page_of(found), encoding="utf-8")
    built = time.process_time()
    print(f"{page}: {page.stat().st_size / 1e6:.2f} MB, read in {was_read - started:.1f} s, built in "
          f"{built - was_read:.1f} s, drawn in {drawn(page):.1f} s")  # fmt: skip


if __name__ == "__main__":
    main()
