"""The resctrl under test, its state, and the known differences of older kernels."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .filesystem import NEWEST, Resctrl

ROOT = os.environ.get("RESCTRL_ROOT", "")
# The guest's runner collects on the host the tests that it then runs in the guest.
ON_KERNEL = bool(ROOT) or "RESCTRL_GUEST" in os.environ
HERE = Path(__file__).parent


class Difference(NamedTuple):
    """A behaviour that kernels have had from a version on; on older ones its tests must fail, or this is wrong."""

    since: tuple[int, int]
    tests: str
    what: str


# The versions of the changes as far as known. Differences between 6.12 and 7.2, the two examined versions, are
# attributed to 7.2.
DIFFERENCES = (
    Difference((6, 5), "test_rename_*", "rename answers EPERM"),
    Difference((6, 7), "test_task_list_*", "a list of thread ids is EINVAL"),
    Difference((6, 7), "test_negative_id_*", "a negative id is EINVAL without words"),
    Difference((6, 7), "test_empty_write_succeeds_*", "an empty write to tasks is EINVAL"),
    Difference((7, 2), "test_mkdir_in_info_*", "mkdir in info is EPERM"),
    Difference((7, 2), "test_mkdir_clears_*", "last_cmd_status keeps its words when a mkdir succeeds"),
    Difference((7, 2), "test_schemata_is_not_padded", "values are padded to the width of the widest"),
)


def kernel_version(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    assert found, release
    return int(found[1]), int(found[2])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the kernel's own tests to the kernel, and expect the known failures of older kernels."""
    ours = [item for item in items if HERE in item.path.parents]
    if not ON_KERNEL:
        kernel_only = [item for item in ours if item.get_closest_marker("kernel_only")]
        config.hook.pytest_deselected(items=kernel_only)
        items[:] = [item for item in items if item not in kernel_only]
        for item in ours:
            item.add_marker("fuse")
            item.add_marker(pytest.mark.houses("lab"))
        return
    for item in ours:
        if not any(item.iter_markers("guest")):
            item.add_marker(pytest.mark.guest(**TWO_DOMAINS))
    version = described_kernel()
    for item in ours if ROOT else []:
        for difference in DIFFERENCES:
            if version < difference.since and fnmatch(item.name, difference.tests):
                item.add_marker(pytest.mark.xfail(reason=difference.what, strict=True))


class Processor(NamedTuple):
    """A processor that behaves in its own way: how the guest is booted with it, how it is simulated, how mounted."""

    guest: dict[str, int]
    simulation: dict[str, Any]
    options: str = ""


INTEL = "Intel"
TWO_DOMAINS = {"cpus": 2}
PROCESSORS = {
    INTEL: Processor(TWO_DOMAINS, {}),
    "AMD": Processor({"count": 1, "amd": 1, "counters": 4}, {"vendor": "amd", "assignable_counters": 4, "limbo": 0.2}),
    "AMD without ABMC": Processor({"amd": 1}, {"vendor": "amd", "limbo": 0.2}),
    "clusters": Processor(
        {"cpus": 4, "numa": 4, "snc": 2, "sparse": 1, "count": 1},
        {"clusters": 2, "sparse_masks": True, "cpus": 4, "limbo": 0.2},
    ),
    "energy": Processor({"cpus": 4, "aet": 1}, {"energy": True, "cpus": 2, "limbo": 0.2}),
    "CDP": Processor(TWO_DOMAINS, {"cdp": True, "limbo": 0.2}, "cdp"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that is marked `processors("AMD", …)` these processors; all others have Intel's."""
    marker = metafunc.definition.get_closest_marker("processors")
    if marker:
        night = {"AMD without ABMC": [pytest.mark.nightly]}
        chosen = [
            pytest.param(name, marks=[pytest.mark.guest(**PROCESSORS[name].guest), *night.get(name, [])])
            for name in marker.args
        ]
        metafunc.parametrize("root", chosen, indirect=True, scope="module")


@pytest.fixture(scope="module")  # no other module, of other suites in the same boot either, finds another mount
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    processor = PROCESSORS[getattr(request, "param", INTEL)]
    if not ROOT:
        from resctrl_hooks.lab.simulation import mounted  # noqa: PLC0415 - there is no mfusepy in the guest

        folder = tmp_path_factory.mktemp("conformance") / "resctrl"
        with mounted(folder, rmids=16, closids=8, **processor.simulation) as path:
            yield path
        return
    options = ["-o", processor.options] if processor.options and not _is_served(ROOT) else []
    if options:
        _mount(ROOT, *options)
    yield ROOT
    if options:
        _mount(ROOT)


def described_kernel() -> tuple[int, int]:
    """Return the version of the kernel whose behaviour is tested: a simulation behaves like the newest."""
    return kernel_version(os.uname().release) if ROOT and not _is_served(ROOT) else NEWEST


def _is_served(root: str) -> bool:
    """Return whether a process serves this filesystem and has set its processor."""
    return any(
        line.split()[1:3] == [root, "fuse.resctrl"] for line in Path("/proc/self/mounts").read_text().splitlines()
    )


def _mount(root: str, *options: str) -> None:
    subprocess.run(["umount", root], check=True)
    subprocess.run(["mount", "-t", "resctrl", *options, "resctrl", root], check=True)


@pytest.fixture
def processor(request: pytest.FixtureRequest, root: str) -> str:
    """Return the name of the test's processor."""
    return str(request.node.callspec.params["root"])


@pytest.fixture
def resctrl(root: str) -> Iterator[Resctrl]:
    """Return the filesystem, without groups before and after."""
    filesystem = Resctrl(root, described_kernel())
    filesystem.clean()
    yield filesystem
    filesystem.clean()


@pytest.fixture
def process() -> Iterator[Callable[[], int]]:
    """Start processes that do nothing, in the root class, and end them after the test."""
    with ExitStack() as stack:

        def start() -> int:
            started = stack.enter_context(subprocess.Popen(["sleep", "1000"]))
            stack.callback(started.kill)
            return started.pid

        yield start


@pytest.fixture
def task(process: Callable[[], int]) -> int:
    return process()
