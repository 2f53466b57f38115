"""Fixtures of the tests in the guest: resctrl, bundles, runtimes, Podman, containerd."""

import json
import os
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.bundles import make_bundle, make_rootfs
from kernel.containerd import Containerd, Plugin
from kernel.groups import Resctrl
from kernel.installed import Installed
from kernel.pods import UID, UIDS, Containers, KubernetesPod
from kernel.runtimes import IMAGE, Podman, Runtime
from resctrl_hooks.core.node.context import Context

HERE = os.path.dirname(os.path.abspath(__file__))
VARIANTS: dict[str, dict[str, Any]] = {
    "driver": {"cgroupfs": "cgroupfs", "systemd": pytest.param("systemd", marks=pytest.mark.systemd)},
    "runtime_name": {"runc": "runc", "crun": "crun"},
}
"""The cgroup drivers and the OCI runtimes. systemd's driver needs a systemd, hence another boot."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with each driver and runtime that it uses, or with those that its mark `only` names.

    A module that has a fixture of the name chooses itself.
    """
    chosen: dict[str, str] = {}
    for mark in metafunc.definition.iter_markers("only"):  # the closest first
        chosen = {**mark.kwargs, **chosen}
    given = {name for mark in metafunc.definition.iter_markers("parametrize") for name in str(mark.args[0]).split(", ")}
    for name, values in VARIANTS.items():
        if name in metafunc.fixturenames and name not in given and not hasattr(metafunc.module, name):
            wanted = [values[chosen[name]]] if name in chosen else list(values.values())
            metafunc.parametrize(name, wanted)


PROCESSOR = {"cpus", "numa", "snc", "amd", "counters", "count", "bandwidth"}
"""A test's requirements of the guest's processors. The default is a single one, which is the fastest."""


def tried_elsewhere(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return tests that never run and tests that run only at night, as other runtimes and drivers run them too.

    Of four combinations, runc under systemd and crun under cgroupfs always run, and crun under systemd at night. Of
    two, for example the runtimes under cgroupfs, one always runs and the other at night. Which one depends on the
    test's name alone: in a boot, other files' tests are not collected. Tests can choose the driver themselves.
    """
    found: dict[tuple[Path, str], dict[tuple[str, str], list[pytest.Item]]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)  # pytest has no declared attribute for it
        values = callspec.params if callspec else {}
        chooses = any("driver" in str(mark.args[0]) for mark in item.iter_markers("parametrize"))
        if "driver" in values and not chooses:
            function = found.setdefault((item.path, item.name.partition("[")[0]), {})
            function.setdefault((values.get("runtime_name", ""), values["driver"]), []).append(item)
    never, nightly = [], []
    for (_, name), tried in found.items():
        if len(tried) == 4:
            never += tried["runc", "cgroupfs"]
            nightly += tried["crun", "systemd"]
        elif len(tried) == 2:
            nightly += tried[sorted(tried)[zlib.crc32(name.encode()) % 2]]
    return never, nightly


def needs_slow_boot(item: pytest.Item) -> bool:
    """Return whether a test needs systemd on other processors than one: such boots are for the night."""
    words = {word for marker in item.iter_markers("guest") for word in marker.kwargs}
    return bool(words & PROCESSOR) and ("init" in words or item.get_closest_marker("systemd") is not None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect these tests outside the guest, and measurements by default; the last line counts them."""
    ours = [item for item in items if str(item.path).startswith(f"{HERE}{os.sep}")]
    never, nightly = tried_elsewhere(ours)
    for item in [*nightly, *(item for item in ours if needs_slow_boot(item))]:
        item.add_marker(pytest.mark.nightly)
    if "measures" not in config.option.markexpr:
        never += [item for item in ours if item.get_closest_marker("measures")]
    if "RESCTRL_GUEST" not in os.environ:  # neither in the guest, nor does tests/lab/vm plan the boots
        never = ours
    config.hook.pytest_deselected(items=never)
    items[:] = [item for item in items if item not in never]
    for item in ours:
        if not any(PROCESSOR & marker.kwargs.keys() for marker in item.iter_markers("guest")):
            item.add_marker(pytest.mark.guest(cpus=1))


@pytest.fixture(scope="session")
def boot() -> dict[str, object]:
    """Return the guest's boot options: rmids, closids, occupancy, init."""
    return dict(json.loads(os.environ["RESCTRL_GUEST"]))


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    """Return the real resctrl, without any group before and after."""
    mounted = Resctrl(os.environ["RESCTRL_ROOT"])
    mounted.clean()
    yield mounted
    mounted.clean()


@pytest.fixture(scope="session")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_rootfs(str(tmp_path_factory.mktemp("rootfs") / "rootfs"))


@pytest.fixture
def bundle(rootfs: str, tmp_path: Path) -> Callable[..., str]:
    """Make bundles: `bundle("name", "echo hello", hooks=…, annotations=…, linux=…)`."""
    return lambda name, command, **options: make_bundle(str(tmp_path / "bundles" / name), rootfs, command, **options)


@pytest.fixture
def runtime(runtime_name: str, driver: str) -> Iterator[Runtime]:
    """Return each OCI runtime under each cgroup driver; its containers go at the end."""
    chosen = Runtime(runtime_name, driver)
    yield chosen
    chosen.clean()


@pytest.fixture
def installed(tmp_path: Path, request: pytest.FixtureRequest) -> Installed:
    """Return our hooks, with the settings of the mark `settings`; the default ones without it."""
    mark = request.node.get_closest_marker("settings")
    return Installed(str(tmp_path / "installed"), **(mark.kwargs if mark else {}))


@pytest.fixture
def context(resctrl: Resctrl, installed: Installed, tmp_path: Path) -> Context:
    """Return the node: its containers are those of the runtimes, and those of `tmp_path`."""
    installed.configure(runtimeRoots={"own": str(installed.crun), "runc": "/run/runc", "crun": "/run/crun"})
    made = installed.context()
    made.ledger.prepare()
    return made


@pytest.fixture
def containers(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> Containers:
    """Return containers of each OCI runtime under each cgroup driver, with the hooks of `installed`."""
    return Containers(runtime, bundle, lambda: installed.hooks)


@pytest.fixture
def pods(
    resctrl: Resctrl, runtime: Runtime, installed: Installed, bundle: Callable[..., str]
) -> Iterator[list[KubernetesPod]]:
    """Return eight pods with the hooks of `installed`, without containers yet."""
    made = [KubernetesPod(uid, runtime, installed, bundle) for uid in UIDS]
    yield made
    for one in made:
        one.remove()


@pytest.fixture
def pod(
    resctrl: Resctrl, runtime: Runtime, installed: Installed, bundle: Callable[..., str]
) -> Iterator[KubernetesPod]:
    """Return pod `UID` alone."""
    made = KubernetesPod(UID, runtime, installed, bundle)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def image(rootfs: str) -> str:
    return Podman("crun", "cgroupfs").import_image(rootfs, IMAGE)


@pytest.fixture
def podman(runtime_name: str, driver: str, image: str) -> Iterator[Callable[..., Podman]]:
    """Make Podmans: `podman(hooks=FOLDER)`, for each OCI runtime and cgroup driver. `image` is there already."""
    made: list[Podman] = []

    def make(hooks: str | None = None) -> Podman:
        made.append(Podman(runtime_name, driver, hooks))
        return made[-1]

    yield make
    for one in made:
        one.clean()


@pytest.fixture(scope="module")
def containerd(boot: dict[str, object], rootfs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    started = Containerd(str(tmp_path_factory.mktemp("containerd")), systemd=boot["init"] == "systemd")
    started.start()
    started.import_images(rootfs)
    yield started
    started.stop()


@pytest.fixture
def node(containerd: Containerd, resctrl: Resctrl) -> Iterator[Containerd]:
    """containerd without pods, and a resctrl without groups."""
    yield containerd
    containerd.clean()


@pytest.fixture
def plugin(node: Containerd, tmp_path: Path) -> Iterator[Callable[..., Plugin]]:
    """Make a plugin with settings, not started yet."""
    made: list[Plugin] = []

    def make(**settings: Any) -> Plugin:
        made.append(Plugin(str(tmp_path / "plugin"), **settings))
        return made[-1]

    yield make
    node.clean()
    for one in made:
        if one.served is not None:
            one.kill(signal.SIGTERM)
