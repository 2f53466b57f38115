"""The text of a features file of node-feature-discovery, and the facts in it. Pure.

Source: node-feature-discovery, docs/usage/customization-guide.md, "Local feature source": a line ``KEY=VALUE`` becomes
a label, ``# +expiry-time=`` ends the lines that follow it, and other comments are ignored.
"""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "feature.node.kubernetes.io/resctrl."
ALLOCATION = "allocation"
"""The key of what this node can allocate, and with a dot the beginning of the keys of its resources."""
_EXPIRY = "# +expiry-time="
_BOOT = "# boot "
FIRST = "# Facts about resctrl on this node for node-feature-discovery; resctrl-hooks writes them.\n"
"""The file before its facts are known."""


def text_of(facts: "Mapping[str, str]", boot: str, until: int) -> str:
    """Return the file: facts by key, the boot in which they were proved, and the end of their validity, a Unix time."""
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))
    lines = "".join(f"{PREFIX}{key}={value}\n" for key, value in sorted(facts.items()))
    return f"{FIRST}{_BOOT}{boot}\n{_EXPIRY}{expiry}\n{lines}"


def facts_of(text: str, boot: str) -> "dict[str, str] | None":
    """Return the facts in a file by key; None if they were proved in another boot, or not yet."""
    lines = text.splitlines()
    if _BOOT + boot not in lines:
        return None
    pairs = (line[len(PREFIX) :].partition("=") for line in lines if line.startswith(PREFIX))
    return {key: value for key, _, value in pairs}
