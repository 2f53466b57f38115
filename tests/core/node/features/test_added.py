"""The feature that docs/dev/architecture.md adds, with its two rows and nothing else, is done, seen and put back."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ID, Host

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.inventory.feature_display.model import Display
from resctrl_hooks.core.inventory.feature_display.table import DISPLAYS
from resctrl_hooks.core.node.failure_policies import failure_policy
from resctrl_hooks.core.node.feature import SKIP, Feature, Step
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.part import Row
from resctrl_hooks.core.node.registry import features_in_use
from resctrl_hooks.core.node.settings import Settings

PAGE = Path(__file__).parents[4] / "docs/dev/architecture.md"


def written(path: str, value: int) -> None:
    Path(path).write_text(str(value))


@pytest.fixture
def oom(monkeypatch: pytest.MonkeyPatch) -> str:
    """Add the page's feature; return its name."""
    module, row, shown, *_ = (
        part.split("```")[0] for part in PAGE.read_text().partition("## Adding a")[2].split("```python")[1:]
    )
    feature = ModuleType("resctrl_hooks.core.node.features.oom")
    given = {
        "Feature": Feature,
        "Step": Step,
        "SKIP": SKIP,
        "write": written,
        "read": lambda path: int(Path(path).read_text()),
    }
    vars(feature).update(given)
    exec(module, vars(feature))
    monkeypatch.setitem(sys.modules, feature.__name__, feature)
    for name, values in eval(f"{{{row}}}", {"Row": Row}).items():
        monkeypatch.setitem(FEATURES, name, values)
    for name, display in eval(f"{{{shown}}}", {"Display": Display}).items():
        monkeypatch.setitem(DISPLAYS, name, display)
    return str(vars(feature)["FEATURE"].name)


def test_feature_rows_are_all_that_hooks_need(host: Host, pod: dict[str, Any], oom: str) -> None:
    assert oom not in [one.name for one in features_in_use(Settings())]
    host.configure(oom={"enabled": True})
    settings = host.context().settings
    assert (getattr(settings, oom), failure_policy(oom, settings)) == ({"enabled": True}, "ignore")
    pod["annotations"]["oom.resctrl-hooks.io"] = "500"
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    score = host.proc / str(pod["pid"]) / "oom_score_adj"
    assert score.read_text() == "500"
    key = host.context().ledger.key_of(ID)
    record = host.context().ledger.read_member(key, ID) or {}
    assert [step["feature"] for step in record["steps"]] == ["monitoring", oom]

    score.write_text("0")  # another program undoes it
    host.enforce()
    assert score.read_text() == "500"


def test_feature_rows_are_all_that_people_half_needs(host: Host, pod: dict[str, Any], oom: str) -> None:
    host.configure(oom={"enabled": True})
    pod["annotations"]["oom.resctrl-hooks.io"] = "500"

    def said(command: str, *words: str, given: str = "") -> dict[str, Any]:
        call = ["--config", str(host.config), command, *words, "-o" if command != "explain" else "--json"]
        done = CliRunner().invoke(main, [*call, *(["json"] if command != "explain" else [])], input=given)
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.output)["items"][0]
        return found

    steps = said("explain", given=json.dumps(pod))["steps"]
    assert {"feature": oom, "action": "score", "needs": {"value": 500}}.items() <= steps[-1].items()
    host.call(pod)
    assert said("show", ID[:12])["containers"][0]["details"][oom] == {"score": {"value": 500}}
