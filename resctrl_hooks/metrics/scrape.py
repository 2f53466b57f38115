"""One scrape: every family, with its own outcome and duration among them."""

import time

from resctrl_hooks.node import tally
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.steps import Node

from .exposition import Family
from .ourselves import own_families
from .pods import Names, pod_families


class Scraper:
    """What an exporter keeps from scrape to scrape: the node, and the names of the pods."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._names: Names = {}

    def families(self) -> tuple[list[Family], list[HookError]]:
        """All families, and what could not be read: that is left out, and ``resctrl_scrape_ok`` is 0."""
        started = time.perf_counter()
        families: list[Family] = []
        problems: list[HookError] = []
        for part in (self._pods, self._ourselves):
            try:
                families += part()
            except HookError as error:
                problems.append(error)
        ok = Family("resctrl_scrape_ok", "gauge", "1 if resctrl and our records could be read.")
        ok.add("", 0 if problems else 1)
        took = Family("resctrl_scrape_duration_seconds", "gauge", "How long reading them took.", "seconds")
        took.add("", round(time.perf_counter() - started, 6))
        return [*families, ok, took], problems

    def _pods(self) -> list[Family]:
        return pod_families(self._node, self._names)

    def _ourselves(self) -> list[Family]:
        tally.fold(self._node.ledger)
        return own_families(self._node)
