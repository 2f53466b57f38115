"""A hook's stage in this process, without the call around it: no deadline, log line or policy, and errors pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from resctrl_hooks.core.node.container.oci import POSTSTOP, parse_state, read_bundle
from resctrl_hooks.core.node.container.workload import derive
from resctrl_hooks.core.node.hook.call import stopped
from resctrl_hooks.core.node.hook.create_runtime import create_runtime
from resctrl_hooks.core.node.host.procfs import cgroups_of

if TYPE_CHECKING:
    from resctrl_hooks.core.node.context import Context


def call(told: dict[str, Any], context: Context) -> None:
    """Do the stage of a container's state."""
    state = parse_state(json.dumps(told).encode())
    if state.stage == POSTSTOP:
        stopped(state.id, context)
    else:
        cgroups = cgroups_of(context.proc, state.pid)
        create_runtime(derive(state, read_bundle(state.bundle), cgroups, context.settings.cgroup_path), context)
