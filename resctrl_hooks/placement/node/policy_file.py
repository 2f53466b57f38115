"""External placement policies: a Python file of root's with a function ``choose``, run in the node half."""

import sys

from ...core.node.host.files import read_file
from .policy import Decision, PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.host.topology import Topology
    from .policy import Request
    from .usage import Choose, Usage

_LIMIT = 1 << 20
_HINT = "correct this file, or placement.policy in the configuration"


def load_policy(path: str) -> "Choose":
    """Return the policy in a file. It can import the node half's modules as ``from .policy import Decision``.

    Raises:
        PlacementError: it is missing, writable by others than root, or not a policy.
    """
    # As a module of this package its relative imports resolve, whatever the package's name is here.
    spec = type(sys.__spec__)(f"{__name__.rpartition('.')[0]}.policy_of_operator", None)
    space: "dict[str, Any]" = {"__name__": spec.name, "__spec__": spec}
    try:
        code = compile(read_file(path, _LIMIT, trusted=True), path, "exec", dont_inherit=True)
        exec(code, space)  # noqa: S102  # root wrote it, and enabled it in the settings
    except OSError as error:
        raise PlacementError.of_file(error, f"policy {path}") from error
    except Exception as error:
        raise PlacementError(f"cannot load policy {path}: {type(error).__name__}: {error}", hint=_HINT) from error
    choose = space.get("choose")
    if not callable(choose):
        raise PlacementError(f"policy {path} has no function choose(topology, usage, request)", hint=_HINT)

    def guarded(topology: "Topology", usage: "Usage", request: "Request") -> Decision:
        try:
            decision = choose(topology, usage, request)
        except PlacementError:
            raise
        except Exception as error:
            raise PlacementError(f"policy {path} failed: {type(error).__name__}: {error}", hint=_HINT) from error
        if not isinstance(decision, Decision):
            raise PlacementError(f"policy {path} returned {type(decision).__name__}, not a Decision", hint=_HINT)
        return decision

    return guarded
