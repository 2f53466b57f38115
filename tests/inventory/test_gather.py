"""The one word for a pod."""

import pytest

from resctrl_hooks.inventory.gather import state_of
from resctrl_hooks.inventory.models import Group, Pod

GROUP = Group(rdt_class="", name="k", path="/r/mon_groups/k", origin="created", tasks=0)


@pytest.mark.parametrize("cgroup, state", [("/sys/fs/cgroup/pod", "idle"), ("", "assigned")])
def test_pod_without_containers_is_idle_unless_its_key_belongs_to_a_program(cgroup: str, state: str) -> None:
    assert state_of(Pod(key="k", state="assigned", cgroup=cgroup, groups=[GROUP]), waiting=False) == state
