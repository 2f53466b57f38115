"""Exclusive RDT classes: where their ways lie, what other classes lose, and how that is restored."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from golden import Golden

from core.rdt.conftest import RdtHost
from resctrl_hooks.core.node.nfd.features import FIRST
from resctrl_hooks.core.node.nfd.file import renew
from resctrl_hooks.core.node.resctrl.schemata import LOCK
from resctrl_hooks.core.rdt import classes
from resctrl_hooks.core.rdt.capabilities import CacheCapability, Capabilities
from resctrl_hooks.core.rdt.layout import lay_out

HOUSES = ("lab",)
RECORD = "rdt-exclusive.json"


def cache(width: int, least: int = 1, shareable: int = 0, *names: str) -> Capabilities:
    limits = CacheCapability((1 << width) - 1, least, gaps=False, shareable=shareable)
    resources = names or ("L3",)
    return Capabilities(dict.fromkeys(resources, limits), {}, {name: [0] for name in resources}, 8)


def own(value: str) -> dict[str, Any]:
    return {"L3": value, "exclusive": True}


LAYOUTS: list[tuple[Capabilities, dict[str, Any]]] = [
    (cache(12), {"a": own("60%"), "b": own("30%")}),
    (cache(11), {"a": own("60%"), "b": own("30%")}),
    (cache(12), {"a": own("60%"), "b": own("f00")}),
    (cache(12), {"a": own("25%"), "b": own("f")}),
    (cache(12, 1, 0x3), {"a": own("25%")}),  # the hardware's ways are the last choice
    # a class that is not exclusive takes its share of the rest; one without a value gets the rest
    (cache(12), {"a": own("50%"), "b": {"L3": "25%"}, "c": {"MB": None}}),
    (cache(8), {"a": own("1c")}),  # the rest is the larger part on one side, since masks have no gaps
    (cache(12), {"a": own("50%"), "/": {"L3": "c00"}}),  # the root class keeps its own mask if it has one
    (cache(12), {"a": {"L3": "60%"}}),
    (cache(12, 1, 0, "L3CODE", "L3DATA"), {"a": {"L3DATA": "25%", "exclusive": True}}),  # the same ways
    *((cache(12, 2), specs) for specs in (
        {"a": own("60%"), "b": own("f80")}, {"a": own("70%"), "b": {"L3": "50%"}},
        {"a": own("ff0"), "b": {"L3": "03f"}, "c": {"L3": "00f"}}, {"a": own("03f"), "b": own("ff0")},
        {"a": own("ffe")}, {"a": own("30-70%"), "b": own("40%")},
    )),
]  # fmt: skip


def test_exclusive_ways_are_taken_from_all_others_or_the_layout_is_impossible(golden: Golden) -> None:
    found = []
    for can, specs in LAYOUTS:
        layout = lay_out(specs, can)
        masks = {name: {one: of[0] for one, of in schemata.items()} for name, schemata in layout.desired.items()}
        problems = [f"    {name}: {text}" for name, texts in layout.problems.items() for text in texts]
        found += [json.dumps(specs), *(problems or [f"    {json.dumps(masks)}"])]
    golden("\n".join(found))


STEPS = ("read_abilities", "present_classes", "read_before", "read_schemata", "write_before", "write_schemata")
"""Functions that a call of apply uses, each at least once."""


@pytest.mark.fuse
@pytest.mark.parametrize("step", STEPS)
def test_another_call_of_apply_at_any_step_keeps_the_masks_to_restore(
    simulated: RdtHost, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It runs between this call and the result of the step, as far as this call lets it."""
    full, real = simulated.l3(), getattr(classes, step)
    simulated.configure(rdt={"classes": {"a": own("50%")}})
    monkeypatch.setattr(classes, "PATIENCE", 0.01)
    codes = []

    def late(*given: Any) -> Any:
        found = real(*given)
        monkeypatch.setattr(classes, step, real)
        codes.append(simulated.rdt("apply").exit_code)
        return found

    monkeypatch.setattr(classes, step, late)
    assert simulated.rdt("apply").exit_code == 0
    assert codes == [int(step.startswith("write"))], "the first step comes before the lock, and the writes behind it"
    assert simulated.l3() != full
    simulated.apply()
    assert simulated.l3() == full


@pytest.mark.fuse
def test_apply_beside_another_call_that_hangs_is_one_line(simulated: RdtHost, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated.configure(rdt={"classes": {"a": own("50%")}})
    monkeypatch.setattr(classes, "PATIENCE", 0.01)
    with simulated.context().ledger.lock_named(LOCK, 1):
        done = simulated.rdt("apply")
    assert (done.exit_code, len(done.output.splitlines())) == (1, 1), done.output
    assert simulated.rdt("apply").exit_code == 0


@pytest.mark.fuse
@pytest.mark.parametrize("exclusive", ["f", "f0", "fe", "7f", "3"])
def test_proof_keeps_the_label_of_allocation_beside_an_exclusive_class(
    simulated: RdtHost, tmp_path: Path, exclusive: str
) -> None:
    features = tmp_path / "features"
    features.write_text(FIRST)
    simulated.configure(nodeFeaturesPath=str(features))
    context = simulated.context()
    renew(context)
    assert "allocation.L3=" in features.read_text()
    assert simulated.apply(a=own(exclusive))["a"]["state"] == "as declared"
    os.utime(features, (0, 0))
    renew(context)
    assert "allocation.L3=" in features.read_text()
