"""Keys of the top level that configure what observes a node: the ``slowdown`` and ``history`` sections, and Events."""

from typing import Annotated, Literal

from pydantic import Field

from resctrl_hooks.core.config.section import AbsolutePath, Pattern, Section
from resctrl_hooks.core.node.feature_table import KEYS

from .history import History

_DEFAULTS = KEYS["slowdown"]


class Slowdown(Section):
    """Finds slowed pods, and the neighbours that slow them. See docs/diagnose.md."""

    enabled: bool | Literal["auto"] = _DEFAULTS["enabled"]
    """Judge pods all the time (`resctrl-hooks-guard.service`). `auto`: if the history or the guard is on."""

    perf: bool = _DEFAULTS["perf"]
    """Use performance counters."""

    pods: Annotated[int, Field(ge=0, le=256)] = _DEFAULTS["pods"]
    """Largest number of pods with performance counters at a time. Pods take turns of 10 seconds."""

    watch: list[Pattern] = _DEFAULTS["watch"]
    """Pods with performance counters, as patterns of NAMESPACE/POD. Empty: pods of `rdt.guard.protect`, slowed pods,
    then those with the most CPU time."""

    experiment: list[Pattern] = _DEFAULTS["experiment"]
    """Pods that `diagnose --experiment` may limit, as patterns of NAMESPACE/POD. Never pods of `rdt.guard.protect`."""

    limit: list[Pattern] = _DEFAULTS["limit"]
    """Pods that `resctrl-hook limit` may limit, as patterns of NAMESPACE/POD. Never pods of `rdt.guard.protect`."""

    directory: AbsolutePath = _DEFAULTS["directory"]
    """Directory of the baselines."""


class Residents(Section):
    """Sections of the resident process."""

    slowdown: Slowdown = Slowdown()
    history: History = History()


class Events(Section):
    """Kubernetes Events."""

    events: bool = KEYS["events"]
    """Send Kubernetes Events for slowed, limited and waiting pods: docs/kubectl.md."""
