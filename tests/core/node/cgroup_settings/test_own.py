from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host

from resctrl_hooks.core.node.host import cgroup
from resctrl_hooks.core.node.host.procfs import Cgroup, cgroups_of

FILES = {"memory.swap.max": "max", "cpu.weight": "100", "io.weight": "default 100"}


def test_features_of_one_call_share_cgroup_lookup(
    host: Host, pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"enabled": True, "defaults": {"namespaces": {"*": "one"}}}
    host.configure(
        classes=[{"name": "noswap", "allowswap": False}],
        blockio={**one, "classes": {"one": [{"weight": 50}]}},
        scheduling={**one, "classes": {"one": {"cpuWeight": 20}}},
    )
    folder = host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/")
    for name, value in FILES.items():
        (folder / name).write_text(value)
    asked = []

    def ask(proc: str, pid: int) -> list[Cgroup]:
        asked.append(pid)
        return cgroups_of(proc, pid)

    monkeypatch.setattr(cgroup, "cgroups_of", ask)
    pod["annotations"]["class.memtierd.nri.io"] = "noswap"
    outcome = host.call(pod)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert {name: (folder / name).read_text() for name in FILES} == {
        "memory.swap.max": "0",
        "cpu.weight": "20",
        "io.weight": "default 50",
    }
    assert asked == [100]
