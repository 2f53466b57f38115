"""The running containers of this node with their names, also those without a record: for `explain POD`."""

from collections.abc import Sequence
from typing import NamedTuple

from resctrl_hooks.core.inventory.find import LEAST, begun, named, several
from resctrl_hooks.core.inventory.podman import RUNTIME as PODMAN
from resctrl_hooks.core.inventory.podman import PodmanNames, podman_names
from resctrl_hooks.core.node.container.names import short_id
from resctrl_hooks.core.node.container.runtimes import Found, living_containers
from resctrl_hooks.core.node.container.workload import Workload, workload_of
from resctrl_hooks.core.node.errors import HookError

from .host import Host


class Running(NamedTuple):
    """A running container."""

    found: Found
    workload: Workload
    names: set[str]
    """Its id and its pod's key and names."""

    @property
    def pod(self) -> str:
        """The pod as `list` names it."""
        return "/".join(filter(None, (self.workload.namespace, self.workload.pod))) or short_id(self.workload.key)


def running_containers(host: Host) -> list[Running]:
    """Return the running containers."""
    context = host.context
    podman: PodmanNames | None = None
    result = []
    for found in living_containers(context.settings, context.proc):
        try:
            one = workload_of(found.id, found.pid, found.bundle, context.proc, context.settings.cgroup_path)
        except (HookError, ProcessLookupError):
            continue  # it has ended, or its bundle is unreadable: then it has no name either
        names = {found.id, one.key, one.pod, f"{one.namespace}/{one.pod}"}
        if one.runtime == PODMAN:
            podman = podman_names() if podman is None else podman
            one.container = podman.containers.get(found.id, "")
            one.pod = podman.pods.get(one.key, "") if one.in_pod else one.container
            names |= {one.container, one.pod}
        result.append(Running(found, one, names - {"", "/"}))
    return result


def chosen(running: Sequence[Running], what: str) -> str:
    """Return the key of the pod with the name ``what``, by the rules of `find`; an empty string if no pod has it.

    Raises:
        SeveralPodsError: several pods have that name.
    """
    names: dict[str, set[str]] = {}
    for one in running:
        names.setdefault(one.workload.key, set()).update(one.names)
    found = named(what, names) or (begun(what, names) if len(what) >= LEAST else set())
    if len(found) > 1:
        raise several(what, {one.pod for one in running if one.workload.key in found}, len(found))
    return "".join(found)
