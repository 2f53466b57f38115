"""How often the interval of ``diagnose --experiment`` contains the true effect, on a modelled node.

    PYTHONPATH=.:tests python tests/bench/experiment_intervals.py 200

The node is that of tests/slowdown/world.py: one class doubles the victim's cost, another does nothing to it, and the
victim's speed varies by itself.
"""

import sys
import tempfile
from pathlib import Path

from conftest import Host
from slowdown.world import TRUTH, contains_truth

NOISES = (0.02, 0.05, 0.1, 0.2)


def main(runs: int) -> None:
    """Print a row for each noise."""
    print("| deviation of the victim's speed | experiments | class that slows it | class that does not |")
    print("|--:|--:|--:|--:|")
    for number, noise in enumerate(NOISES):
        seeds = range(number * runs, (number + 1) * runs)  # the same ones would give the same hits
        with tempfile.TemporaryDirectory() as folder:
            found = [contains_truth(Host(Path(folder, str(seed))), noise, seed) for seed in seeds]
        hits = [sum(one[name] for one in found) / runs for name in TRUTH]
        print(f"| {noise:.0%} | {runs} | {' | '.join(f'{part:.1%}' for part in hits)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
