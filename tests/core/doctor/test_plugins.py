"""doctor on other programs' NRI plugins."""

import json
import time
from pathlib import Path

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.plugins import removed_groups


def test_removed_groups_are_a_problem_with_remedy(staged: Host) -> None:
    assert [found.level for found in removed_groups(staged)] == ["ok"]
    told = {"total": 3, "last": time.time() - 30, "pods": {}}
    (Path(staged.settings.state_dir) / "vanished").write_text(json.dumps(told))
    (found,) = removed_groups(staged)
    assert found.level == "problem"
    assert "another program removed 3 groups of live pods, last 30 s ago" in found.text
    assert "nri-resctrl-mon" in str(found.remedy)
