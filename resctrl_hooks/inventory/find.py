"""Search for a pod: by the start of a key or container id, by namespace/pod, by the pod's name, or by Podman's name."""

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.host.files import is_folder
from resctrl_hooks.node.names import canonical_pod_uid, pod_uid_validator
from resctrl_hooks.node.refusals import recent_refusals

from .base import group_name
from .pod_names import PodNames
from .podman import podman_names, serves_podman
from .records import members_of, recorded

_MOST_SHOWN = 8
_STATIC = "`resctrl-hook list` shows all; for a static pod enter its name or its `kubernetes.io/config.hash`"


class NoSuchPodError(HookError):
    """No known pod has that name, or several have it."""

    reason = "not-found"
    hint = "`resctrl-hook list` shows all; `resctrl-hook explain POD` finds pods without a record"


class SeveralPodsError(NoSuchPodError):
    """Several pods have that name."""


class ForeignGroupError(NoSuchPodError):
    """The name is that of a foreign group, which belongs to no pod."""

    hint = "`resctrl-hook top` shows its counters"


def find(context: Context, what: str) -> str:
    """Return the key of the pod ``what``.

    Raises:
        NoSuchPodError: no pod, or more than one, matches.
    """
    if not what:
        raise NoSuchPodError("the name of the pod is empty")
    keys = sorted(recorded(context))
    for exact in (what, canonical_pod_uid(what)):  # a static pod's `kubernetes.io/config.hash` has no dashes
        if exact in keys:
            return exact
    found = {key for key in keys if key.startswith(what.lower())}
    found |= {context.ledger.key_of(id_) for id_ in context.ledger.containers() if id_.startswith(what)}
    if not found:
        names = {key: _names(context, key) for key in keys}
        found = {key for key, of in names.items() if what in of}
        found = found or {key for key, of in names.items() if any(name.startswith(what) for name in of)}
    if not found and serves_podman(context):
        found = _called_by_podman(context, what, keys)
    found = found or _refused(context, what)
    found.discard("")
    if len(found) == 1:
        return found.pop()
    if not found:
        where = _foreign_group(context, what)
        if where:
            raise ForeignGroupError(f"{what!r} is a foreign group without a record: {where}")
        # The API shows a static pod's mirror pod, whose UID the node does not know: docs/metrics.md.
        hint = _STATIC if pod_uid_validator(what) else NoSuchPodError.hint
        raise NoSuchPodError(f"unknown pod or container {what!r}", hint=hint)
    called = PodNames(context)
    called.learn(found)
    shown = ", ".join(sorted(called.of(key).whole for key in found)[:_MOST_SHOWN])
    raise SeveralPodsError(f"{what!r} matches {len(found)} pods: {shown}", hint="enter more characters")


def _refused(context: Context, what: str) -> set[str]:
    """Return the keys of refused containers with this name, or whose pod has it."""
    lately = recent_refusals(context.ledger.folder)
    by_name = {
        str(one.get("key", ""))
        for one in lately
        if what in (one.get("key"), one.get("pod"), f"{one.get('namespace', '')}/{one.get('pod', '')}")
    }
    return by_name or {
        str(one.get("key", ""))
        for one in lately
        if str(one.get("id", "")).startswith(what) or str(one.get("key", "")).startswith(what.lower())
    }


def _foreign_group(context: Context, what: str) -> str:
    """Return the folder of a foreign mon_group by its name in `list` or its own name; empty if unknown."""
    resctrl = context.monitor.resctrl
    try:
        for rdt_class in ("", *resctrl.classes()):
            name = what.removeprefix(group_name(rdt_class, ""))
            folder = resctrl.group_folder(rdt_class, name)
            if name and "/" not in name and name not in (".", "..") and is_folder(folder):
                return folder
    except HookError:
        pass
    return ""


def _called_by_podman(context: Context, what: str, keys: list[str]) -> set[str]:
    names = podman_names()
    found = {context.ledger.key_of(id_) for id_, name in names.containers.items() if name == what}
    return found | {id_ for id_, name in names.pods.items() if name == what and id_ in keys}


def _names(context: Context, key: str) -> set[str]:
    names = set()
    for record in (context.ledger.read_pod(key), *members_of(context, key).values()):
        if record and record.get("pod"):
            names |= {str(record["pod"]), f"{record.get('namespace', '')}/{record['pod']}"}
    return names
