"""The running containers that placement has not placed, and their CPUs: where it is off, all containers of the node."""

from collections.abc import Container, Iterator
from typing import NamedTuple

from resctrl_hooks.core.inventory.container_names import joined
from resctrl_hooks.core.node.container.oci import read_bundle
from resctrl_hooks.core.node.container.resources import cpu_request
from resctrl_hooks.core.node.container.runtimes import bundle_of, living_containers
from resctrl_hooks.core.node.container.workload import workload_of
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.host.files import kernel_text
from resctrl_hooks.core.node.resctrl.locked_key import record_is_dead

_FIELD = "Cpus_allowed_list:"


class Unplaced(NamedTuple):
    """A container, its pod's key (empty if unknown), its present CPUs, and its request in thousandths of a CPU.

    ``name`` is Kubernetes' name of a container without a record, and ``bundle`` its bundle.
    """

    id: str
    key: str
    cpus: int
    milli: int
    name: str = ""
    bundle: str = ""


def unplaced_containers(context: Context, placed: Container[str], online: int) -> list[Unplaced]:
    """Return the running containers but those in ``placed``: of records, and of the runtimes' state.

    A pod's sandbox is not one of its containers. A container with an unreadable bundle has no known request.

    Raises:
        HookError: the state directory or that of a runtime cannot be read.
    """
    found = {one.id: one for one in _recorded(context, online)}
    known = {*found}
    for one in living_containers(context.settings, context.proc, known):
        try:
            workload = workload_of(one.id, one.pid, one.bundle, context.proc, context.settings.cgroup_path)
        except ProcessLookupError:
            continue
        except HookError:
            found[one.id] = Unplaced(one.id, "", _allowed(context, one.pid, online), 0, bundle=one.bundle)
            continue
        if not workload.sandbox:
            milli = _request(one.bundle)
            name = joined((workload.namespace, workload.pod, workload.container))
            cpus = _allowed(context, one.pid, online)
            found[one.id] = Unplaced(one.id, workload.key, cpus, milli, name, one.bundle)
    return sorted((one for one in found.values() if one.id not in placed), key=lambda one: (one.key, one.id))


def _recorded(context: Context, online: int) -> Iterator[Unplaced]:
    for id_ in context.ledger.containers():
        key = context.ledger.key_of(id_)
        record = context.ledger.read_member(key, id_) if key else None
        if record is not None and record.get("pid") and not record_is_dead(record, context.monitor.boot, context.proc):
            milli = _request(record.get("bundle") or bundle_of(id_, context.settings))
            yield Unplaced(id_, key, _allowed(context, record["pid"], online), milli)


def _request(bundle: str) -> int:
    try:
        return cpu_request(read_bundle(bundle).resources)[0]
    except HookError:
        return 0


def _allowed(context: Context, pid: int, online: int) -> int:
    """Return the online CPUs on which a process may run; all of them if that is unknown."""
    lines = kernel_text(f"{context.proc}/{pid}/status").splitlines()
    text = next((line.removeprefix(_FIELD) for line in lines if line.startswith(_FIELD)), "")
    try:
        return parse_list(text.strip()) & online or online
    except ValueError:
        return online
