"""doctor on a whole host under systemd: a healthy one has no findings, and every fault is named while containers start.

Each fault is then fixed by doctor's remedy, and doctor runs again.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from core.install import breakages

from kernel.bare import clear_host, configure_host
from kernel.breakages import disk_full, interpreter_gone, unmounted
from kernel.groups import Resctrl
from kernel.installed import resctrl_hook, succeeds
from kernel.runtimes import IMAGE, Podman
from resctrl_hooks.core.install.paths import CODE

pytestmark = [pytest.mark.systemd, pytest.mark.only(driver="systemd", runtime_name="crun")]
STATE = "/run/resctrl-hooks"
INSTALL = ("install", "--runtime", "podman")


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    """Return our hook on this host, for Podman, with a deadline that an emulated host can keep."""
    clear_host()
    succeeds(*INSTALL)
    configure_host("deadlineSeconds: 8\n")
    yield
    clear_host()


def doctor() -> tuple[bool, list[dict[str, Any]]]:
    """Return whether there is no problem, and all findings."""
    result = resctrl_hook("doctor", "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code == 0) is said["ok"], result.output
    return said["ok"], said["items"]


def findings() -> tuple[bool, list[dict[str, Any]]]:
    """Return whether there is no problem, and the findings that are not OK."""
    ok, found = doctor()
    return ok, [finding for finding in found if finding["level"] != "ok"]


def test_healthy_host_has_no_problem(resctrl: Resctrl) -> None:
    del resctrl
    ok, found = doctor()
    assert ok
    assert {finding["level"] for finding in found} == {"ok"}
    assert "self-test" in {finding["check"] for finding in found}


@contextlib.contextmanager
def broken(breakage: breakages.Breakage, *repair: str) -> Iterator[None]:
    """Break the installation; a command repairs it."""
    breakage(Path("/"))
    yield
    succeeds(*repair)


Fault = Callable[[], contextlib.AbstractContextManager[None]]


@pytest.mark.parametrize(
    "fault, check, words, remedy",
    [
        pytest.param(
            *(interpreter_gone, "code", "cannot run /usr/bin/python3", "install Python"), marks=pytest.mark.nightly
        ),
        (
            partial(broken, breakages.code_gone, *INSTALL),
            *("hook", f"names {CODE}/launch.py, which does not exist", "resctrl-hook install --runtime podman"),
        ),
        pytest.param(
            *(partial(broken, breakages.half_of_it, *INSTALL), "code", "changed or missing", "resctrl-hook install"),
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            partial(broken, breakages.settings_garbage, "config", "apply"),
            *("configuration", "config.json", "resctrl-hook config apply"),
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            *(partial(disk_full, Path(STATE)), "state", "is full", "free some space"), marks=pytest.mark.nightly
        ),
        (unmounted, "mount", "resctrl is not mounted", "systemctl start sys-fs-resctrl.mount"),
    ],
    ids=["no interpreter", "no code", "half of the code", "settings garbage", "full disk", "unmounted"],
)
def test_fault_is_named_and_containers_start(
    podman: Callable[..., Podman], resctrl: Resctrl, fault: Fault, check: str, words: str, remedy: str
) -> None:
    del resctrl
    engine = podman()
    engine.run(IMAGE, "sleep 1000", "-d", "--name=before")
    with fault():
        assert engine.run(IMAGE, "echo started", "--rm").splitlines()[-1] == "started"
        engine.command("rm", "-f", "-t", "0", "before")
        ok, found = findings()
        named = [one for one in found if one["check"] == check and words in one["text"]]
        assert [(one["level"], remedy in one["remedy"]) for one in named] == [("problem", True)], found
        assert not ok
    resctrl_hook("reconcile")  # effects that could not be undone then
    assert findings() == (True, [])
