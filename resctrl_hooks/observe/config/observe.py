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
    """Whether the resident process (`resctrl-hooks-guard.service`) samples all the time. `auto`: if it runs anyway, for
    the history or the guard. `diagnose` also works without it."""

    perf: bool = _DEFAULTS["perf"]
    """Whether performance counters may be used. Pods with the kernel's telemetry counters (AET) need none."""

    pods: Annotated[int, Field(ge=0, le=256)] = _DEFAULTS["pods"]
    """Largest number of pods with performance counters. In the resident process they take turns of 10 seconds, a sixth
    of them at a time."""

    watch: list[Pattern] = _DEFAULTS["watch"]
    """Pods with performance counters, as patterns of NAMESPACE/POD. Empty: pods of protected classes
    (`rdt.guard.protect`), then slowed pods, then those with the most CPU time."""

    experiment: list[Pattern] = _DEFAULTS["experiment"]
    """Pods that `diagnose --experiment` may limit for 36 seconds in windows of three, as patterns of NAMESPACE/POD:
    their CPU weight, CPU time, I/O weight or cache ways. Never pods of protected classes (`rdt.guard.protect`)."""

    limit: list[Pattern] = _DEFAULTS["limit"]
    """Pods that `resctrl-hook limit` may limit, as patterns of NAMESPACE/POD; `*` is every pod. Never pods of protected
    classes (`rdt.guard.protect`)."""

    directory: AbsolutePath = _DEFAULTS["directory"]
    """Directory of the baselines, which outlive pods and reboots."""


class Residents(Section):
    """Sections of the resident process."""

    slowdown: Slowdown = Slowdown()
    history: History = History()


class Events(Section):
    """Kubernetes Events."""

    events: bool = KEYS["events"]
    """Whether the DaemonSet `resctrl-hooks-events` sends Kubernetes Events for slowed and for waiting pods. See
    docs/kubectl.md."""
