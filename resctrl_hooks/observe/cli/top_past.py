"""The past in `top`: scenes of stored samples, and the keys that go from one to another."""

import time
from collections.abc import Mapping
from typing import Final

import click

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.core.inventory.find import similar
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.cli.past_text import gap_note, heading, written_time_of
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_scenes import Scenes
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.usage import USERS
from resctrl_hooks.observe.inventory.usage_models import MemoryUsage
from resctrl_hooks.observe.node.capacity.capacity import CONFIGURED
from resctrl_hooks.observe.node.history.rows import CAPACITY, MEMORY, TRAFFIC, Row
from resctrl_hooks.observe.node.snapshot.cache_size import l3_sizes
from resctrl_hooks.observe.past.moments import PastUsers, packages_watts, pair_of
from resctrl_hooks.observe.past.pods import names_in_past
from resctrl_hooks.observe.past.view import Found, Past

STEPS: Final[Mapping[str, int]] = {"left": -1, "right": 1, "shift-left": -10, "shift-right": 10}
"""Keys that go by samples."""
JUMPS: Final[Mapping[str, float]] = {"[": -60.0, "]": 60.0, "{": -3600.0, "}": 3600.0}
"""Keys that go by seconds."""


class PastSamples:
    """Scenes of this node's history.

    Raises:
        HistoryError: there is none.
    """

    def __init__(
        self, context: Context, options: ListOptions, domain: tuple[str, int] | None, capacity: float | None
    ) -> None:
        if options.selector is not None:
            raise click.BadParameter("the history has no labels.", param_hint="-l")
        self._options = options
        self._past = Past(context)
        self._names = PodNames(context)
        try:
            sizes = l3_sizes(context.monitor.resctrl.root)
        except (HookError, OSError):
            sizes = {}
        self.scenes = Scenes(options, self._is_selected, sizes, domain, capacity)
        self._found: Found | None = None
        self._seen: list[set[str]] = []  # the names of the users in the last scene

    def at(self, when: float) -> Scene:
        """Return the scene of a time in seconds since 1970.

        Raises:
            HistoryError: no sample is there.
        """
        self._found = self._past.at(when)
        return self.scene()

    def check(self, scene: Scene) -> None:
        """Check that a named pod or group is in a scene.

        Raises:
            ClickException: none of them is.
        """
        requested = self._options.pods
        if requested and not any(line.kind in USERS for line in scene.lines):
            known = similar(requested[0], self._seen)
            raise click.ClickException(f"{', '.join(requested)} had no counters at {scene.time}{known}")

    def pressed(self, key: str) -> Scene | None:
        """Return the scene that a key of `STEPS` or `JUMPS` leads to; None for the present.

        The first key leads from the present to the last sample.
        """
        found = self._found
        if found is None:
            self._found = self._past.near(time.time())
        elif key in STEPS:
            self._found = self._past.step(found.entry, STEPS[key]) or (found if STEPS[key] < 0 else None)
        else:
            when = found.entry.time / 1000 + JUMPS[key]
            self._found = None if when > self._past.ends()[1] else self._past.near(when)
        return self.scene() if self._found else None

    def leave(self) -> None:
        """Forget the place in the past."""
        self._found = None

    def scene(self) -> Scene:
        """Return the scene of the sample at this place."""
        found = self._found
        if found is None:
            raise click.UsageError("no time is selected")
        before, now = pair_of(found.before, found.sample)
        self.scenes.learn(now)
        self._seen = []
        users = PastUsers(found.sample, self._names)
        watts = packages_watts(found.before, found.sample)
        scene = self.scenes.between(before, now, users, watts)
        limits = self._past.limits_at(found)
        for line in scene.lines:
            for one in (line, *line.shares):
                one.limited = limits.get(line.key)
        when = found.entry.time / 1000
        scene.host, scene.time = found.sample.host, clock(when)
        scene.when, scene.past, scene.note = (
            written_time_of(found),
            heading(found),
            gap_note(found) or self._past.skipped(),
        )
        scene.memory = [_memory(row) for row in found.sample.rows if row["kind"] == MEMORY]
        return scene

    def _is_selected(self, line: Line) -> bool:
        names = names_in_past(line.key, line.name, line.pod)
        self._seen.append(names)
        return (not self._options.pods or not names.isdisjoint(self._options.pods)) and (
            not self._options.namespace or line.namespace == self._options.namespace
        )


def _memory(row: Row) -> MemoryUsage:
    rate, capacity = row.get(TRAFFIC), row.get(CAPACITY)
    l3 = [int(folder.rpartition("_")[2]) for folder in str(row["key"]).split()]
    known = float(rate) if rate is not None else None
    return MemoryUsage(
        domain=l3[0],
        l3=l3,
        memory_bandwidth_bytes_per_second=known,
        capacity_bytes_per_second=float(capacity) if capacity else None,
        capacity_source=str(row.get("event") or CONFIGURED) if capacity else None,
        load_percent=round(known / float(capacity) * 100, 1) if known is not None and capacity else None,
        estimated=False,
        pods=[],
    )
