"""The index of RMID holders: the names of its files, and invalid ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import RULES

from resctrl_hooks.core.node.sharing.claims import claim_of, entry_of, holders, now, rank_of
from resctrl_hooks.core.node.sharing.decision import Claim
from resctrl_hooks.core.node.sharing.priority import version_of

if TYPE_CHECKING:
    from resctrl_hooks.core.node.ledger import Ledger

HOUSES = ("lab",)


@pytest.mark.parametrize(
    "claim, entry",
    [
        (Claim("k", 0, 1.0), "1000000.1000000.k"),
        (Claim("k.l", -10, 2.5), "0999990.2500000.k.l"),
        (Claim("k", 1_000_000, 0.000001), "2000000.1.k"),
        (Claim("k", -1_000_000, 3.0), "0000000.3000000.k"),
    ],
)
def test_entry_sorts_by_priority_and_reads_back(ledger: Ledger, claim: Claim, entry: str) -> None:
    assert entry_of(claim) == entry
    for name in (entry, "x.1.k", "1.x.k", "1.1.", "1.1", "k", "-1.1.k"):
        ledger.mark("rmids", name)
    assert holders(ledger) == [claim], "invalid entries are ignored"


def test_claim_time_is_in_microseconds_as_in_index() -> None:
    time = now()
    assert round(time * 1e6) / 1e6 == time
    assert claim_of("k", None) is None


@pytest.mark.parametrize("record, rules", [({}, 0), ({"claim": {"priority": 1, "rules": 7}}, 7)])
def test_rules_version_is_in_claim(record: Any, rules: int) -> None:
    assert rank_of(record)[1] == rules
    assert version_of(RULES) != version_of([])
