"""Search for a pod: by its key, a container's id, namespace/pod, the pod's name, Podman's name, or its group's.

A whole name wins over the beginning of another one.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.names import canonical_pod_uid, pod_uid_validator
from resctrl_hooks.core.node.refusals import recent_refusals

from .attention import state_problem
from .foreign import GroupName, groups_named, groups_of_node
from .pod_names import PodNames
from .podman import podman_names, serves_podman
from .records import is_known, members_of, recorded

LEAST = 3
"""The smallest number of characters that can stand for a name."""
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

    hint = "`resctrl-hook show` shows its counters"

    def __init__(self, what: str, group: GroupName, folder: str) -> None:
        super().__init__(f"{what!r} is a foreign group without a record: {folder}")
        self.group = group


Names = Mapping[str, Collection[str]]
"""The names of each key."""


def named(what: str, names: Names) -> set[str]:
    """Return the keys that have this name."""
    return {key for key, of in names.items() if what in of}


def begun(what: str, names: Names) -> set[str]:
    """Return the keys with a name that begins so; keys and ids also in capitals."""
    found = {key for key, of in names.items() if any(name.startswith(what) for name in of)}
    return found or (begun(what.lower(), names) if what != what.lower() else found)


def find(context: Context, what: str) -> str:
    """Return the key of the pod ``what``.

    Raises:
        ForeignGroupError: it is the name of a foreign group.
        NoSuchPodError: no pod, or more than one, matches.
    """
    if not what:
        raise NoSuchPodError("the name of the pod is empty")
    keys = sorted(recorded(context))
    for exact in (what, canonical_pod_uid(what)):  # a static pod's `kubernetes.io/config.hash` has no dashes
        if exact in keys and is_known(context, exact):
            return exact
    keys = [key for key in keys if is_known(context, key)]
    names, refused = _names(context, keys), _refused(context)
    found = named(what, names)
    if not found and serves_podman(context):
        found = _called_by_podman(context, what, keys)
    found = found or named(what, refused) or _of_group(context, what, keys)
    if len(what) >= LEAST:
        found = found or begun(what, names) or begun(what, refused)
    found.discard("")
    if len(found) == 1:
        return found.pop()
    if not found:
        raise _unknown(context, what, names)
    called = PodNames(context)
    called.learn(found)
    raise several(what, [called.of(key).whole for key in found], len(found))


def several(what: str, pods: Iterable[str], count: int) -> SeveralPodsError:
    """Return the error for a name of several pods."""
    shown = ", ".join(sorted(pods)[:_MOST_SHOWN])
    return SeveralPodsError(f"{what!r} matches {count} pods: {shown}", hint="enter more characters")


def _unknown(context: Context, what: str, names: Names) -> NoSuchPodError:
    if others := begun(what, names):
        return NoSuchPodError(
            f"unknown pod or container {what!r}; {len(others)} have a name that begins so",
            hint=f"enter the name, or its first {LEAST} characters or more",
        )
    # The API shows a static pod's mirror pod, whose UID the node does not know: docs/metrics.md.
    hint = _STATIC if pod_uid_validator(what) else NoSuchPodError.hint
    if problem := state_problem(context.ledger.folder):
        hint = f"{problem}; `resctrl-hook explain POD` finds pods without a record"
    known = [*names.values(), *([one.shown, one.text] for one in _foreign_groups(context))]
    return NoSuchPodError(f"unknown pod or container {what!r}{similar(what, known)}", hint=hint)


def similar(what: str, names: Iterable[Collection[str]]) -> str:
    """Return a question with the most similar name; empty without one."""
    known = sorted({name for of in names for name in of})
    close = difflib.get_close_matches(what, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _refused(context: Context) -> dict[str, set[str]]:
    """Return the names of refused containers' keys: as of `_names`."""
    names: dict[str, set[str]] = {}
    for one in recent_refusals(context.ledger.folder):
        key, pod, id_ = (str(one.get(name, "")) for name in ("key", "pod", "id"))
        names.setdefault(key, {key, id_}).update({pod, f"{one.get('namespace', '')}/{pod}"} if pod else ())
    names.pop("", None)
    return names


def _of_group(context: Context, what: str, keys: Collection[str]) -> set[str]:
    """Return the keys of the pods whose group has this name.

    Raises:
        ForeignGroupError: it is the name of a foreign group.
        NoSuchPodError: several foreign groups have it.
    """
    try:
        groups = groups_named(context, what)
    except HookError:
        return set()  # without resctrl, there are no groups
    if found := {key for _, key in groups if key in keys}:
        return found
    if len(groups) > 1:
        shown = ", ".join(one.shown for one, _ in groups[:_MOST_SHOWN])
        raise SeveralPodsError(f"{what!r} matches {len(groups)} foreign groups: {shown}", hint="enter one of these")
    for one, _ in groups:
        raise ForeignGroupError(what, one, f"{context.monitor.resctrl.root}/{one.shown}")
    return set()


def _foreign_groups(context: Context) -> list[GroupName]:
    try:
        return [one for one, key in groups_of_node(context) if not key]
    except HookError:
        return []


def _called_by_podman(context: Context, what: str, keys: list[str]) -> set[str]:
    names = podman_names()
    found = {context.ledger.key_of(id_) for id_, name in names.containers.items() if name == what}
    return found | {id_ for id_, name in names.pods.items() if name == what and id_ in keys}


def _names(context: Context, keys: Iterable[str]) -> dict[str, set[str]]:
    """Return the names of each key: itself, its containers' ids, its pod with and without namespace."""
    found: dict[str, set[str]] = {}
    for key in keys:
        members = members_of(context, key)
        names = found[key] = {key, *members}
        for record in (context.ledger.read_pod(key), *members.values()):
            if record and record.get("pod"):
                names |= {str(record["pod"]), f"{record.get('namespace', '')}/{record['pod']}"}
    return found
