"""The table of slowdown_scenes.py, and the figures over all runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

TRUE = 1.25
"""The true slowdown from which a verdict is missed."""
NEAR, NEAR_PART = 0.15, 0.2
ROUNDS, CYCLES, AFTER = "truth", "by_cycles", "left"
NORMAL = 1.15
"""How slow a pod may be after a remedy."""
HEADS = (
    "scene",
    "evidence",
    "runs",
    "verdict right",
    "cause right",
    "culprits right",
    "ratio",
    "by seconds",
    "by cycles",
    "after remedies",
)

FIGURES = (
    *("evidence", "runs, kinds", "precision", f"recall from {TRUE}", "cause right", "culprits right"),
    *(f"ratio within {NEAR:.0%} by cycles", "by seconds", f"parts within {NEAR_PART:.0%}"),
    "false alarms, pod-minutes of harmless scenes",
    "remedies followed that helped",
)


def table(lines: Sequence[str], scenes: Mapping[str, Any]) -> str:
    """Return the runs as a table in Markdown, with the figures below it."""
    runs = [json.loads(line) for line in lines if line.startswith("{")]
    for run in runs:
        scene = scenes[run["scene"]]
        run[AFTER] = scene.left(run["after"]) if run.get("followed") else None
        run[ROUNDS] = run["truths"].get(scene.true_by)
        run[CYCLES] = scene.by_cycles(run["truths"])
    rows = [f"| {' | '.join(HEADS)} |", f"|---|---|{'--:|' * (len(HEADS) - 2)}"]
    for name, method in dict.fromkeys((name, run["method"]) for name in scenes for run in runs if run["scene"] == name):
        some, scene = [run for run in runs if (run["scene"], run["method"]) == (name, method)], scenes[name]
        slowed = [run for run in some if run["verdict"] == "slowed" == scene.right]
        cells = (
            *(name, method, len(some), sum(run["verdict"] == scene.right for run in some)),
            sum(_cause(run, scene) for run in slowed) if scene.cause else "-",
            sum(_culprits(run, scene) for run in slowed) if scene.cause else "-",
            *(_range(some, field) for field in ("ratio", ROUNDS, CYCLES, AFTER)),
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    rows += ["", f"| {' | '.join(FIGURES)} |", f"|---|{'--:|' * (len(FIGURES) - 1)}"]
    for method in dict.fromkeys(run["method"] for run in runs):
        figures = _figures([run for run in runs if run["method"] == method], scenes)
        rows.append(f"| {' | '.join((method, *figures))} |")
    return "\n".join(rows)


def _figures(runs: list[dict[str, Any]], scenes: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row of `FIGURES` behind the evidence."""
    found = [(run, scenes[run["scene"]]) for run in runs]
    slowed = [(run, scene) for run, scene in found if run["verdict"] == "slowed"]
    right = [(run, scene) for run, scene in slowed if scene.right == "slowed"]
    due = [run for run, scene in found if scene.right == "slowed" and (run[CYCLES] or run[ROUNDS] or TRUE) >= TRUE]
    near, by_cycles = (
        [abs(run["ratio"] / run[field] - 1) <= NEAR for run, _ in right if run[field] and run["ratio"]]
        for field in (ROUNDS, CYCLES)
    )
    both = [(run, scene) for run, scene in right if scene.also]
    harmless = sum(run["seconds"] for run, scene in found if scene.right == "normal") / 60
    return [
        f"{len(runs)}, {len({run['scene'] for run in runs})}",
        _of(len(right), len(slowed)),
        _of(sum(run["verdict"] == "slowed" for run in due), len(due)),
        _of(sum(_cause(*one) for one in right), len(right)),
        _of(sum(_culprits(*one) for one in right), len(right)),
        _of(sum(by_cycles), len(by_cycles)),
        _of(sum(near), len(near)),
        _of(sum(_parts(*one) for one in both), len(both)),
        f"{len(slowed) - len(right)} in {harmless:.1f}",
        _of(sum(run[AFTER] < NORMAL for run, _ in right if run[AFTER]), sum(bool(run[AFTER]) for run, _ in right)),
    ]


def _cause(run: dict[str, Any], scene: Any) -> bool:
    return bool(run["causes"] == sorted(filter(None, (scene.cause, scene.also))))


def _parts(run: dict[str, Any], scene: Any) -> bool:
    """Return whether both of two causes have their part: that of each unit's cost, and that of waiting."""
    true = {scene.cause: run["truths"]["cpu"], scene.also: run["truths"]["rounds"] / run["truths"]["cpu"]}
    return all(abs((run["factors"].get(cause) or 0) / part - 1) <= NEAR_PART for cause, part in true.items())


def _culprits(run: dict[str, Any], scene: Any) -> bool:
    return sorted(run["culprits"]) == sorted(scene.culprits)


def _of(number: int, whole: int) -> str:
    return f"{number}/{whole}" if whole else "-"


def _range(runs: list[dict[str, Any]], field: str) -> str:
    values = sorted(run[field] for run in runs if run[field] is not None)
    return f"{values[0]:.2f}-{values[-1]:.2f}" if values else "-"
