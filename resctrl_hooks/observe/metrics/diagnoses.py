"""The document of `kubectl resctrl diagnose`: the last diagnoses of all pods by the sampling process."""

import json
from collections.abc import Callable

from resctrl_hooks.core.inventory.envelope import envelope, written
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.slowdown.diagnosis import LIST
from resctrl_hooks.observe.slowdown.judged import judged

from .selection import EVERYTHING, Selection


def diagnoses(context: Context, selection: Selection = EVERYTHING) -> Callable[[], bytes]:
    """Return a function that reads the document; ``judged`` is false if no process judges this node's pods.

    The function raises `HookError` if the records are unreadable.
    """
    names = PodNames(context)

    def read() -> bytes:
        found = judged(context, names, selection.has_namespace)
        if found is None:
            return json.dumps(envelope(LIST, [], judged=False)).encode()
        return json.dumps(envelope(LIST, found.items, judged=True, time=written(found.time))).encode()

    return read
