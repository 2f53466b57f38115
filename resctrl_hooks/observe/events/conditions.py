"""The conditions of this node's pods that become Events: from the sampling process's verdicts and the records."""

import re

from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.inventory.records import members_of
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.names import pod_uid_validator
from resctrl_hooks.observe.node.temporary.limits import active_limits
from resctrl_hooks.observe.slowdown.diagnosis import CausePod, Diagnosis
from resctrl_hooks.observe.slowdown.judged import judged

from .model import Condition, Pod, uid_of

SLOWED, NO_RMID, LIMITED = "SlowedByNeighbour", "NoFreeRMID", "Limited"
"""The reasons."""
_MOST_NAMED = 5
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # a DNS subdomain, which the names of pods are
_WAITING = "no RMID is free: the pod runs without cache and bandwidth counters until one is (`kubectl resctrl nodes`)"


def conditions(context: Context, names: PodNames) -> list[Condition]:
    """Return the conditions: those of slowed pods first, then those of limited ones.

    Raises:
        LedgerError: the records are unreadable.
    """
    found = judged(context, names)
    slowed = [] if found is None else [one for item in found.items for one in _slowed(item)]
    return [*slowed, *_limited(context, names), *_waiting(context)]


def _slowed(item: Diagnosis) -> list[Condition]:
    """Return a condition for each cause with evidence in which other pods have a part."""
    namespace, _, name = item.name.rpartition("/")
    pod = _pod(item.key, namespace, name)
    if pod is None or item.verdict != "slowed" or item.ratio is None:
        return []
    return [
        Condition(
            pod,
            SLOWED,
            cause.cause,
            "Diagnosed",
            f"work takes {item.ratio:.1f} times as long as in quiet times; {cause.cause}: {_by(cause.pods, namespace)} "
            f"(`kubectl resctrl diagnose {item.name}`)",
        )
        for cause in item.causes
        if cause.state == "supported" and cause.pods
    ]


def _by(pods: list[CausePod], namespace: str) -> str:
    """Name pods of the same namespace only: an Event is read by its users, who may not know others."""
    own = [one for one in pods if one.name.startswith(f"{namespace}/")]
    words = [f"{one.name.removeprefix(f'{namespace}/')} {one.share:.0%}" for one in own[:_MOST_NAMED]]
    others = [one.share for one in pods if not one.outside and one not in own]
    if others:
        words.append(f"pods of other namespaces {sum(others):.0%}")
    words += [f"{one.name} {one.share:.0%}" for one in pods if one.outside]
    return ", ".join(words)


def _limited(context: Context, names: PodNames) -> list[Condition]:
    """Return a condition for each limit, without its reason: that is the operator's, and can name other pods."""
    limits = active_limits(context)
    if limits:
        names.learn(context.ledger.keys())
    found = []
    for one in limits.values():
        name = names.of(one.key)
        pod = _pod(one.key, name.namespace, name.pod)
        if pod is not None:
            note = f"limited: {one._replace(reason='').text} (`resctrl-hook limits` on the node)"
            found.append(Condition(pod, LIMITED, f"{one.change} {one.end}", "Limited", note))
    return found


def _waiting(context: Context) -> list[Condition]:
    """Return a condition for each pod that waits for an RMID and has no group."""
    found = []
    for key in context.ledger.marked("waiting"):
        record = context.ledger.read_pod(key) or {}
        if record.get("groups"):
            continue
        sources = [record, *members_of(context, key).values()]
        namespace, name = (next((str(one[of]) for one in sources if one.get(of)), "") for of in ("namespace", "pod"))
        pod = _pod(key, namespace, name)
        if pod is not None:
            found.append(Condition(pod, NO_RMID, "", "Waiting", _WAITING))
    return found


def _pod(key: str, namespace: str, name: str) -> Pod | None:
    """Return a pod of Kubernetes; None for any other, or one whose names are not those of a pod."""
    if not pod_uid_validator(key) or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(name):
        return None
    return Pod(namespace, name, uid_of(key))
