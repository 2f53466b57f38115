"""The samples of `top`: successive states of the node with the rates between them."""

from contextlib import suppress
from dataclasses import replace

from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.inventory.gather import pod_of, rmids_of, waiting_keys
from resctrl_hooks.core.inventory.podman import UnknownLabelsError
from resctrl_hooks.core.inventory.records import recorded
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.note import note_running
from resctrl_hooks.core.node.resctrl.absence import why_no_monitoring
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_scenes import Scenes
from resctrl_hooks.observe.inventory.class_changes import ClassChanges
from resctrl_hooks.observe.inventory.columns import CPU, MBM
from resctrl_hooks.observe.inventory.guard import lowered_values
from resctrl_hooks.observe.inventory.limited import limits_by_pod
from resctrl_hooks.observe.inventory.memory_load import memory_usage
from resctrl_hooks.observe.inventory.package_energy import PackagePower
from resctrl_hooks.observe.inventory.rates import FOREIGN, Line
from resctrl_hooks.observe.inventory.slowdown import ratios_and_lost
from resctrl_hooks.observe.inventory.usage import Users
from resctrl_hooks.observe.node.capacity.capacity import capacities_of
from resctrl_hooks.observe.node.guard.snapshots import domains_of
from resctrl_hooks.observe.node.snapshot.cache_size import l3_sizes
from resctrl_hooks.observe.node.snapshot.snapshot import open_files, take


class LiveSamples:
    """Successive samples, each with the rates since the previous one."""

    def __init__(
        self,
        context: Context,
        options: ListOptions,
        domain: tuple[str, int] | None = None,
        capacity: float | None = None,
    ) -> None:
        self._context = context
        if options.sort == MBM.key and why_no_monitoring(context.monitor.resctrl) is not None:
            options = replace(options, sort=CPU.key)  # nothing counts the bandwidth
        self._options = options
        note_running(context)
        self._keys, groups = options.targets(context)
        self._groups = {one.shown for one in groups}
        if options.selector:
            options.chosen(context, [pod for key in recorded(context) if (pod := pod_of(context, key)) is not None])
        self._selected: dict[str, bool] = {}
        self._users = Users(context)
        self._files = open_files()
        self._before = take(context, self._files)
        self._packages = PackagePower()
        self._changes = ClassChanges(context)
        self._capacities = capacities_of(context, self._before.slots.values())
        self._memory = domains_of(context, self._before)
        self._has_capacity = any(self._capacities.of(domain[0]) for domain in self._memory)
        self.scenes = Scenes(options, self._is_selected, l3_sizes(context.monitor.resctrl.root), domain, capacity)
        self.scenes.learn(self._before)

    @property
    def options(self) -> ListOptions:
        """The requested options; without bandwidth counters, lines are sorted by CPU time."""
        return self._options

    def close(self) -> None:
        """Close the counter files: while they are open resctrl can't be unmounted."""
        self._files.close()

    def next(self) -> Scene:
        """Take a sample and return the rates since the previous one."""
        now = take(self._context, self._files)
        watts = self._packages.watts()
        before, self._before = self._before, now
        self._selected = {key: self._selected[key] for key in now.pods.keys() & self._selected}
        scene = self._with_state(self.scenes.between(before, now, self._users, watts))
        scene.rmids = rmids_of(self._context.monitor.resctrl, now.rmids)
        if self._has_capacity:
            names = {key: self._users.name(key) for key in now.pods}
            scene.memory = memory_usage(before, now, self._memory, self._capacities, names)
        return scene

    def first(self) -> Scene:
        """Return the scene before the first rates."""
        return self._with_state(self.scenes.of([]))

    def _with_state(self, scene: Scene) -> Scene:
        absent = why_no_monitoring(self._context.monitor.resctrl)
        scene.absent = with_config(str(absent)) if absent is not None else ""
        scene.waiting = len(waiting_keys(self._context))
        scene.lowered = lowered_values(self._context)
        scene.changes = self._changes.newest
        slowed, scene.lost = ratios_and_lost(self._context)
        limited = limits_by_pod(self._context)
        for line in scene.lines:
            for one in (line, *line.shares):
                one.slowdown, one.limited = slowed.get(line.key), limited.get(line.key)
        return scene

    def _is_selected(self, line: Line) -> bool:
        if line.kind == FOREIGN:
            return line.name in self._groups
        if line.key not in self._selected:
            selected = False
            if self._options.selector:
                pod = pod_of(self._context, line.key)
                with suppress(UnknownLabelsError):  # of this pod alone
                    selected = pod is not None and bool(self._options.chosen(self._context, [pod]))
            else:
                selected = not self._options.pods or line.key in self._keys
                selected = selected and (not self._options.namespace or line.namespace == self._options.namespace)
            self._selected[line.key] = selected
        return self._selected[line.key]
