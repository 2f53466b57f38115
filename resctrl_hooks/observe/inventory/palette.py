"""Names, units and colours that `top`, reports, the Grafana dashboards and `kubectl resctrl` have in common.

Names and units of measured quantities are in `columns`. The tests measure how well colour-blind people can tell the
colours apart, and their contrast on white and on dark ground.
"""

from collections.abc import Mapping
from typing import Final

from resctrl_hooks.core.node.resctrl.layouts import PERF, parse_domain
from resctrl_hooks.observe.inventory.columns import CPU, LLC, MBM, POWER
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, UNGROUPED

SERIES: Final = (
    *("#0479fe", "#eab029", "#ad0f04", "#51d38d", "#7e27bd"),
    *("#c44498", "#3b5d52", "#b4b6fd", "#98764a", "#c88d03"),
)
"""A colour for each of the ten largest users, the largest first."""
REST: Final = "#9aa0a6"
"""The colour of the sum of all other users, and of lines that mark something."""
KINDS: Final[Mapping[str, str]] = {POD: SERIES[0], UNGROUPED: REST, FOREIGN: SERIES[1]}
"""The colour of all users of a kind, by `Line.kind`."""
QUANTITIES: Final[Mapping[str, str]] = {
    MBM.key: SERIES[0],
    LLC.key: SERIES[3],
    POWER.key: SERIES[1],
    CPU.key: SERIES[7],
    "rmids": SERIES[5],
}
"""The colour of a quantity of the node, by `Column.key`; ``rmids``: RMIDs in use."""
GOOD, WARNING, BAD = SERIES[3], SERIES[1], SERIES[2]
CAPACITY: Final = SERIES[2]
"""The colour of the line at a capacity, or at the size of a cache."""


def domain_title(folder: str) -> str:
    """Return the name of a domain in pictures: ``L3 0`` of ``mon_L3_00``, ``L3 0 part 1`` of a part of it.

    The number is that of `--domain`. A processor package is ``package 0``. Other texts are returned unchanged.
    """
    whole, _, part = folder.partition("/")
    found, below = parse_domain(whole), parse_domain(part, part=True)
    if found is None or (part and below is None):
        return folder
    resource, number = found
    name = f"{'package' if resource == PERF else resource} {number}"
    return f"{name} part {below[1]}" if below else name


def memory_title(domain: object) -> str:
    """Return the name of a memory domain: ``memory 0``."""
    return f"memory {domain}"
