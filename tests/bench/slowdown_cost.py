"""The processor time of the slowdown part by window, with 8, 32 and 128 pods without performance counters.

    PYTHONPATH=.:tests python tests/bench/slowdown_cost.py

Counters and cgroups are files in a temporary directory, so the kernel's own time for its files is not included.
"""

import statistics
import tempfile
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hosts.counter_tree import say
from hosts.monitored import plain_host

from resctrl_hooks.node.part import Moment
from resctrl_hooks.node.slowdown import reader
from resctrl_hooks.node.slowdown.constants import WINDOW
from resctrl_hooks.node.slowdown.part import start
from resctrl_hooks.node.snapshot.snapshot import open_files, take

WINDOWS = 60
WAITED = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def measure(number: int) -> list[float]:
    """Return the seconds of processor time of each window with so many pods."""
    with tempfile.TemporaryDirectory() as folder:
        slowdown = {"enabled": True, "perf": False, "directory": f"{folder}/var"}
        settings: dict[str, Any] = {
            "cgroupPath": f"{folder}/cgroup",
            "slowdown": slowdown,
            "monitoring": {"capacity": {"*": 60e9}},
        }
        with plain_host(Path(folder), "info/L3_MON", **settings) as host:
            (host.resctrl / "info/L3_MON/num_rmids").write_text("512\n")
            context, pods, clock = host.context, [], [0.0]
            for pod in range(number):
                key = str(uuid.uuid4())
                cgroup = Path(f"{context.settings.cgroup_path}/pod{pod}")
                with context.monitor.hold(key) as locked:
                    locked.record.update({"namespace": "shop", "pod": f"cart-{pod}", "cgroup": str(cgroup)})
                    group = Path(locked.ensure_group("").path)
                say(group, llc_occupancy=1 << 20, mbm_total_bytes=1)
                cgroup.mkdir(parents=True)
                (cgroup / "cpu.pressure").write_text(WAITED)
                pods.append((group, cgroup))
            part, files, found = start(context), open_files(), []
            assert part is not None
            setattr(reader, "time", SimpleNamespace(monotonic=lambda: clock[0]))  # noqa: B010  # it is no export
            for window in range(1, WINDOWS + 1):
                clock[0] += WINDOW
                for pod, (group, cgroup) in enumerate(pods, start=1):
                    say(group, llc_occupancy=1 << 20, mbm_total_bytes=int(window * pod * 1e8))
                    (cgroup / "cpu.stat").write_text(f"usage_usec {window * 10**7}\nnr_throttled 0\nthrottled_usec 0\n")
                before = time.process_time()
                part.sample(Moment(clock[0], lambda: take(context, files)))
                found.append(time.process_time() - before)
            return found


def main() -> None:
    """Print a line for each number of pods."""
    for number in (8, 32, 128):
        found = measure(number)
        middle, most = statistics.median(found), max(found)
        of_cpu = f"{middle / WINDOW:.3%} of one CPU"
        print(f"{number} pods: {middle * 1e3:.1f} ms of a window, {of_cpu}; most {most * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
