"""Says which tests no mutant needs: `needed.py MATRIX…`, files of `mutants.py --matrix`.

For each mutant that any test kills, one killer is kept: first the tests that are the only ones, then those that kill
most for their length. The rest is listed by file, with its lines, for a person to judge: a test of a property is worth
keeping, an example whose kills others have too is not.
"""

import ast
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def lengths(path: str) -> dict[str, tuple[int, int]]:
    """Return the first line and the number of lines of each test of a file, by its name without parameters."""
    found: dict[str, tuple[int, int]] = {}
    for one in ast.parse((PROJECT / path).read_text()).body:
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test"):
            first = min([one.lineno, *(each.lineno for each in one.decorator_list)])
            found[f"{path}::{one.name}"] = first, (one.end_lineno or first) - first + 1
    return found


def main(matrices: list[str]) -> None:
    killers: dict[str, set[str]] = {}
    for matrix in matrices:
        for line in filter(None, Path(matrix).read_text().split("\n")):
            name, _, tests = json.loads(line)
            killers[name] = {test.partition("[")[0] for test in tests}
    dead = {name: tests for name, tests in killers.items() if tests and tests != {"hangs"}}
    kills: dict[str, set[str]] = defaultdict(set)
    for name, tests in dead.items():
        for test in tests:
            kills[test].add(name)
    alone = Counter(next(iter(tests)) for tests in dead.values() if len(tests) == 1)
    files = {test.partition("::")[0] for test in kills}
    every = {name: place for path in sorted(files) for name, place in lengths(path).items()}
    needed, left = set(alone), set(dead) - {name for test in alone for name in kills[test]}
    while left:
        best = max(sorted(kills), key=lambda test: len(kills[test] & left) / every.get(test, (0, 20))[1])
        needed.add(best)
        left -= kills[best]
    print(f"{len(killers)} mutants, {len(dead)} killed, {len(needed)} tests suffice")
    for path in sorted(files):
        ours = {name: place for name, place in every.items() if name.startswith(f"{path}::")}
        spare = {name: place for name, place in ours.items() if name not in needed}
        print(f"\n{path}: {len(ours)} tests, {sum(length for _, length in spare.values())} lines not needed")
        for name, (first, length) in ours.items():
            what = f"alone kills {alone[name]}" if alone[name] else "chosen" if name in needed else "not needed"
            print(f"  {what:16} {len(kills[name]):4} kills {length:4} lines  {first}: {name.partition('::')[2]}")


if __name__ == "__main__":
    main(sys.argv[1:])
