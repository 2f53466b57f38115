"""Fixtures of the counter tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kernel.counted.truth import ROOT, Comparison, Truth, mounted_with
from kernel.groups import Resctrl
from kernel.installed import Installed

COUNTED = [pytest.mark.counted, pytest.mark.only(driver="cgroupfs")]
"""The marks of all tests here; counters do not depend on the cgroup driver."""
# Intel's counters, of 32 bits, begin close to their end: each wraps while its pod counts.
INTEL = pytest.param("Intel", marks=pytest.mark.guest(count=1, near=100000))
AMD = pytest.param("AMD", marks=pytest.mark.guest(count=1, amd=1, counters=4))


def on(*processors: Any, runtime: str = "crun") -> pytest.MarkDecorator:
    """Run a test with a runtime on each of these processors."""
    rows = [pytest.param(runtime, *one.values, marks=one.marks) for one in processors]
    return pytest.mark.parametrize("runtime_name, processor", rows, indirect=["processor"])


EACH_ONCE = pytest.mark.parametrize(
    "runtime_name, processor",
    [pytest.param(name, *one.values, marks=one.marks) for name, one in (("runc", INTEL), ("crun", AMD))],
    indirect=["processor"],
)
"""Each OCI runtime and each processor once, for results that do not depend on their combination."""


@pytest.fixture(params=[INTEL, AMD])
def processor(request: pytest.FixtureRequest) -> str:
    """Return each processor that counts."""
    return str(request.param)


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return a resctrl that shows RMIDs, new for each test: so that no total is another test's."""
    with mounted_with("debug"):
        yield Resctrl(ROOT)


@pytest.fixture
def no_rmid_left(resctrl: Resctrl) -> Iterator[Callable[[], object]]:
    """Use the RMIDs up. Afterwards wait until they leave limbo, so that the next test's hooks do not wait."""
    yield resctrl.use_up
    resctrl.clean()
    resctrl.settle()


@pytest.fixture
def truth(resctrl: Resctrl, boot: dict[str, Any]) -> Truth:
    """Return the processor's ledger, from here on: asked before any container runs."""
    return Truth(int(boot["rmids"]))


@pytest.fixture
def comparison(installed: Installed, truth: Truth, processor: str) -> Comparison:
    return Comparison(installed, truth)
