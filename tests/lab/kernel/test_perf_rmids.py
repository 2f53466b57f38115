"""Performance events with fewer RMIDs than the cache, forced on by `rdt=energy,perf`: they limit all groups."""

import errno
import json
import os
from pathlib import Path

import pytest

from kernel.counted.truth import ROOT
from kernel.groups import Resctrl
from kernel.installed import Installed, resctrl_hook

RMIDS = 5

pytestmark = pytest.mark.guest(cpus=4, aet=1, perf_rmids=RMIDS, arguments="rdt=energy,perf")


def test_performance_events_with_few_rmids_limit_all_groups(tmp_path: Path) -> None:
    resctrl, installed = Resctrl(ROOT), Installed(str(tmp_path / "host"))
    numbers = {name: int(Path(ROOT, "info", name, "num_rmids").read_text()) for name in ("PERF_PKG_MON", "L3_MON")}
    assert numbers["PERF_PKG_MON"] == RMIDS < numbers["L3_MON"]
    try:
        for number in range(RMIDS - 1):
            os.mkdir(resctrl.path("", f"g{number}"))
        with pytest.raises(OSError, match="No space left") as caught:
            os.mkdir(resctrl.path("", "one-more"))
        assert caught.value.errno == errno.ENOSPC
        listed = json.loads(installed.prints("list", "-o", "json"))
        assert (listed["rmids"]["total"], listed["rmids"]["free"]) == (RMIDS, 0)
        found = json.loads(resctrl_hook("--config", installed.config, "doctor", "--json").stdout)["items"]
        texts = [one["text"] for one in found if one["check"] == "energy"]
        assert any(f"have {RMIDS} RMIDs and L3_MON has {numbers['L3_MON']}" in text for text in texts), texts
    finally:
        resctrl.clear()
