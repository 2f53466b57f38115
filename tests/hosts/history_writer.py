"""A process that writes samples into a history and prints the number of each one after it is written.

Usage: history_writer.py PATH COUNT. It continues after the last sample of the file, and thins as it goes.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from hosts.past import T0, sample  # noqa: E402  # after the path
from resctrl_hooks.observe.node.history.place import claim  # noqa: E402  # as above
from resctrl_hooks.observe.node.history.store import Store  # noqa: E402  # as above
from resctrl_hooks.observe.node.history.tables import HistoryError  # noqa: E402  # as above


def main(path: str, count: int) -> None:
    claim(path)
    store = Store(path, write=True, size=64 << 20)
    ends = store.ends()
    first = 0 if ends is None else (ends[1] - T0) // 10_000 + 1
    sys.stdout.write(f"first {first}\n")
    sys.stdout.flush()
    for number in range(first, first + count):
        try:
            store.add(sample(number * 10, {"a": 100.0, "b": float(number % 7)}))
            store.tidy(120, 86_400)
            sys.stdout.write(f"{number}\n")
        except HistoryError as error:
            sys.stdout.write(f"failed {error}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
