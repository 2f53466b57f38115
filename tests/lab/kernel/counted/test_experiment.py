"""`diagnose --experiment` on real containers: performance counters of their cgroups, and the restored class."""

from collections.abc import Callable

import pytest

from kernel.bandwidth import NOISY, limits
from kernel.counted.conftest import COUNTED
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.runtimes import Podman

HOUSES = ("observe",)
pytestmark = [*COUNTED, pytest.mark.guest(cpus=4, numa=2, pmu=1)]
SPIN = "while :; do :; done"


@pytest.mark.only(runtime_name="crun")
def test_experiment_measures_a_container_and_restores_the_class(
    podman: Callable[..., Podman], image: str, resctrl: Resctrl, installed: Installed
) -> None:
    resctrl.make(NOISY)
    declared = limits(resctrl)
    guard = {"throttle": {NOISY: {"floor": 20}}}
    installed.configure(rdt={"enabled": True, "allow": {"": [NOISY]}, "guard": guard})
    engine = podman(installed.write_hooks_d())
    engine.run(image, SPIN, "-d", "--name=victim", "--cpuset-cpus=0")
    engine.run(image, SPIN, "-d", "--cpuset-cpus=1", f"--annotation=class.rdt.resctrl-hooks.io={NOISY}")
    (victim,) = installed.items("diagnose", engine.inspect("victim", "{{.Id}}"), "--experiment", "--for", "10s")
    (effect,) = victim["experiments"]
    assert (effect["class"], effect["unit"], effect["reason"]) == (NOISY, "cycles per instruction", "")
    assert effect["costOff"] > 0
    assert effect["costOn"] > 0
    assert effect["effectLow"] <= effect["effect"] <= effect["effectHigh"]
    assert limits(resctrl) == declared
