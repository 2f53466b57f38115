"""runc and crun with our hook broken in one way at a time: containers start, and those from before can be removed."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from install.breakages import BROKEN, HANGING, SETTINGS, Breakage
from install.staged import Place, command, impatient, install, put, uninstall
from resctrl_hooks.demo.bundle import Bundle
from resctrl_hooks.demo.subject import CRIO_ANNOTATIONS

if TYPE_CHECKING:
    from resctrl_hooks.demo.stage import Stage

pytestmark = pytest.mark.runtime
# crun knows no hosts with both versions of cgroups; tests/kernel/test_broken.py has both runtimes everywhere.
UNIFIED = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
RUNTIMES = [name for name in ("runc", *(["crun"] if UNIFIED else [])) if shutil.which(name)]
UIDS = ["3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"]


class Installed:
    """Our hook below a folder, with a plain tree in the place of resctrl, and containers that call it."""

    def __init__(self, root: Path, runtime: str) -> None:
        self.root = root
        self.groups = root / "resctrl/mon_groups"
        self.groups.mkdir(parents=True)
        (root / "resctrl/info").mkdir()
        (root / "resctrl/tasks").touch()
        put(root)
        paths = {"resctrlPath": str(root / "resctrl"), "stateDir": str(root / "state"), "log": {"target": "none"}}
        for name in ("config.json", "config.last.json"):
            (root / "etc/resctrl-hooks" / name).write_text(json.dumps({"format": 1, **paths}))
        place = Place(str(root), impatient(command(root), 8))
        stage = cast("Stage", place)
        self.containers = [
            Bundle(stage, runtime, f"g{number}-{os.getpid()}", CRIO_ANNOTATIONS | {"io.kubernetes.pod.uid": uid})
            for number, uid in enumerate(UIDS)
        ]


@pytest.fixture(params=RUNTIMES)
def installed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Installed]:
    host = Installed(tmp_path, request.param)
    yield host
    for container in host.containers:
        if container.id in container.call("list", "-q").split():
            container.call("delete", "--force", container.id)


# `test_guard` has the other breakages: a runtime sees only the exit status, the output, and whether its input is read.
@pytest.mark.parametrize("breakage", [BROKEN[0], HANGING[0], SETTINGS[0]])
def test_containers_start_and_end(installed: Installed, breakage: Breakage) -> None:
    before, after = installed.containers
    before.create()
    assert [path.name for path in installed.groups.iterdir()] == UIDS[:1]  # it works while it is whole
    breakage(installed.root)
    after.create()
    for container in (before, after):
        container.start()
        container.remove()
    assert not {before.id, after.id} & set(before.call("list", "-q").split())


def test_missing_interpreter_lets_containers_run(installed: Installed) -> None:
    before, after = installed.containers
    alias = installed.root / "python3"
    alias.symlink_to("/usr/bin/python3")
    hook = [str(alias) if word == "/usr/bin/python3" else word for word in command(installed.root)]
    for container in (before, after):
        container._stage = cast("Stage", Place(str(installed.root), hook))
    before.create()
    assert [path.name for path in installed.groups.iterdir()] == UIDS[:1]
    alias.unlink()
    after.create()
    before.remove()
    after.remove()


def test_upgrade_serves_earlier_container(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    from resctrl_hooks.install.payload import Payload, folder_name, payload  # noqa: PLC0415

    container = installed.containers[0]
    container.create()
    modules = payload().modules | {"extra.py": b"\n"}
    monkeypatch.setattr("resctrl_hooks.install.plan.payload", lambda: Payload("9", folder_name(modules), modules))
    for _ in range(2):  # the second takes the modules that the container was started with
        install(installed.root)
        modules["extra.py"] += b"\n"
    container.remove()
    assert list(installed.groups.iterdir()) == []


def test_container_survives_uninstall(installed: Installed) -> None:
    container = installed.containers[0]
    container.create()
    uninstall(installed.root)
    container.start()
    container.remove()
    assert container.id not in container.call("list", "-q").split()


def test_refusal_refuses_container(installed: Installed) -> None:
    settings = installed.root / "etc/resctrl-hooks/config.json"
    settings.write_text(
        json.dumps(json.loads(settings.read_text()) | {"failurePolicy": "fail", "resctrlPath": "/none"})
    )
    with pytest.raises(Exception, match="79"):
        installed.containers[0].create()
