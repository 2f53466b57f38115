"""Keys of the top level that configure what observes a node."""

from resctrl_hooks.core.config.section import Section
from resctrl_hooks.core.node.feature_table import KEYS

from .history import History
from .slowdown import Slowdown


class Residents(Section):
    """Sections of the resident process."""

    slowdown: Slowdown = Slowdown()
    history: History = History()


class Events(Section):
    """Kubernetes Events."""

    events: bool = KEYS["events"]
    """Whether the DaemonSet `resctrl-hooks-events` sends Kubernetes Events for slowed and for waiting pods. See
    docs/kubectl.md."""
