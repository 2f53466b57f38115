"""What `kubectl resctrl top` costs for a large cluster: time, processor time and memory of the command.

    python tests/bench/kubectl.py [--nodes 300] [--pods 40] [--runs 3]

A process of its own speaks the API server's paths on the loopback, with the metrics of all nodes. Each pod has two L3
domains and seven series; half a second passes between two readings of a node.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster.fake_cluster import node_page, running

_COMMAND = "from resctrl_hooks.cluster.command import main; main()"


def page(count: int, pods: int) -> str:
    """Return a node's metrics at its Nth scrape."""
    lines = [node_page(count)]
    for number in range(pods):
        own = f'pod_uid="{number:08}-0000-4000-8000-000000000000",namespace="team-{number % 7}",pod="web-{number}"'
        own += ',container="",rdt_class=""'
        for domain in ("00", "01"):
            where = f'domain_id="{domain}",domain_name="mon_L3_{domain}"'
            lines.append(f"l3_llc_occupancy_bytes{{{own},{where}}} {1024.0 * number}")
            lines.append(f"l3_mbm_total_bytes_total{{{own},{where}}} {1e6 * number * count}")
            lines.append(f"l3_mbm_local_bytes_total{{{own},{where}}} {5e5 * number * count}")
        for counter in ("mbm_total_bytes", "mbm_local_bytes"):
            seconds = f'domain_id="",domain_name="",counter="{counter}"'
            lines.append(f"resctrl_counter_seconds_total{{{own},{seconds}}} {float(count)}")
    return "\n".join(lines) + "\n"


def serve(folder: Path, nodes: int, pods: int) -> None:
    """Serve a cluster until the parent closes the pipe."""
    with running(folder) as cluster:
        texts = [page(count, pods) for count in range(2)]
        cluster.pages = {f"worker-{number:03}": lambda count: texts[count % 2] for number in range(nodes)}
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--pods", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.nodes, options.pods)
        return
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--serve", folder, f"--nodes={options.nodes}", f"--pods={options.pods}"]
        server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        server.stdout.readline()
        arguments = ["top", "--kubeconfig", f"{folder}/kubeconfig", "--all", "--interval", "500ms", "--no-headers"]
        for _ in range(options.runs):
            began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [sys.executable, "-c", _COMMAND, *arguments], capture_output=True, text=True, check=True
            )
            seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            rows = len(done.stdout.splitlines())
            print(
                f"{rows} pods in {seconds:.1f} s, {spent:.1f} s of processor time, {after.ru_maxrss >> 10} MiB at most"
            )
        print(f"load average {os.getloadavg()[0]:.1f}")
        server.communicate("")


if __name__ == "__main__":
    main()
