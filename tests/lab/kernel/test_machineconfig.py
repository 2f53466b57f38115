"""The MachineConfig on a node laid out like RHCOS, and the quick starts, whose commands print what the pages show."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosts.ignition import unpacked

from kernel.bundles import FIRST_INSTRUCTION, hooks_from
from kernel.groups import Place, Resctrl, parse_place
from kernel.installed import clear_host, state_of
from kernel.pods import UID, KubernetesPod
from kernel.runtimes import Runtime, cgroup_of, run, wait_until
from resctrl_hooks.core.install import units

HOUSES = ("openshift",)
pytestmark = pytest.mark.systemd
UNITS = Path("/etc/systemd/system")
RESCTRL = "/sys/fs/resctrl"
STATE = ("/run/resctrl-hooks", "/run/resctrl-hooks-code")
TARGETS = ("local-fs.target", "multi-user.target", "timers.target", "paths.target")
SWAP = "memory.swap.max"
HOOKS = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
PLACES = ("/etc", "/var/usrlocal", "/usr/libexec", "/usr/share/containers", "/run")


@pytest.fixture
def rhcos() -> Iterator[None]:
    clear_host()
    local, kept = Path("/usr/local"), Path("/usr/local.kept")
    local.rename(kept)
    Path("/var/usrlocal").mkdir()
    local.symlink_to("../var/usrlocal")
    run(["mount", "--rbind", "/usr", "/usr"])
    run(["mount", "-o", "remount,bind,ro", "/usr"])
    yield
    run(["umount", "-l", "/usr"])
    local.unlink()
    kept.rename(local)
    shutil.rmtree("/var/usrlocal")


class Operator:
    def __init__(self, folder: Path, **settings: Any) -> None:
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        rendered = run(["resctrl-hook", "--config", str(folder / "config.yaml"), "machineconfig"])
        config = yaml.safe_load(rendered)["spec"]["config"]
        self.units = config["systemd"]["units"]
        self.files = {file["path"]: (unpacked(file["contents"]), file["mode"]) for file in config["storage"]["files"]}

    @property
    def enabled(self) -> list[str]:
        return [unit["name"] for unit in self.units if unit["enabled"]]

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        return hooks_from(*filter(os.path.isdir, HOOKS))

    def apply(self) -> None:
        for name, (data, mode) in self.files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)
        for unit in self.units:
            (UNITS / unit["name"]).write_text(unit["contents"])
        run(["systemctl", "enable", *self.enabled])

    def delete(self) -> None:
        for name in self.files:
            Path(name).unlink()
        run(["systemctl", "disable", *self.enabled])
        for unit in self.units:
            (UNITS / unit["name"]).unlink()


def left() -> list[str]:
    found = [path for top in PLACES for path in Path(top).rglob("*") if "resctrl-hooks" in str(path)]
    shown = run(["systemctl", "list-units", "--all", "--no-legend", "--plain", "resctrl-hooks*"])
    return [str(path) for path in found if path.is_symlink() or not path.is_dir()] + shown.splitlines()


def is_repaired(value: Path) -> bool:
    """Change a value that the watcher may not have seen before; return whether it is repaired."""
    value.write_text("max")
    time.sleep(3)
    value.write_text("0")
    until = time.monotonic() + 20
    while value.read_text().strip() == "0" and time.monotonic() < until:
        time.sleep(0.1)
    return value.read_text().strip() == "max"


@pytest.mark.only(driver="systemd", runtime_name="crun")
def test_node_counts_its_first_pod_and_deletion_leaves_nothing(
    rhcos: None, runtime: Runtime, bundle: Callable[..., str], resctrl: Resctrl, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="Read-only"):
        Path("/usr/x").touch()
    operator = Operator(tmp_path, deadlineSeconds=9, classes=[{"name": "swap", "allowswap": True}])
    operator.apply()
    run(["umount", RESCTRL])  # a boot begins without the mount
    run(["systemctl", "daemon-reload"])
    run(["systemctl", "start", "--no-block", *TARGETS])
    try:
        for name in (units.MOUNT, units.COMPILE, units.TIMER, units.WAKE, units.EXEC):
            assert name in operator.enabled
            wait_until(lambda name=name: state_of(name) == "active", f"{name} is active")
        pod = KubernetesPod(UID, runtime, operator, bundle)
        assert parse_place(pod.run("c0", FIRST_INSTRUCTION)) == Place("", UID)

        # In-place resize of a pod: the runtime writes its own value. Without the timer, only the watcher sees it.
        run(["systemctl", "stop", units.TIMER])
        pid = pod.start("c1", annotations={"class.memtierd.nri.io": "swap"})
        value = cgroup_of(pid) / SWAP
        assert value.read_text().strip() == "max"
        wait_until(lambda: is_repaired(value), "the value is repaired")

        operator.delete()
        assert parse_place(pod.run("c2", FIRST_INSTRUCTION)) == Place("", "")
        # Until the reboot, systemd would otherwise start it again and again.
        wait_until(lambda: state_of(units.EXEC) == "inactive", "the watcher's unit is skipped without its code")
        pod.end("c1")
        pod.remove()
    finally:
        for unit in operator.units:
            run(["systemctl", "stop", unit["name"]], check=False)
        run(["systemctl", "reset-failed", "resctrl-hooks*"], check=False)
        run(["umount", RESCTRL], check=False)
        for folder in STATE:
            shutil.rmtree(folder, ignore_errors=True)
        run(["systemctl", "daemon-reload"])
        run(["mount", "-t", "resctrl", "resctrl", RESCTRL])
    assert left() == []


DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("install.md", "simulation.md")
ANY, BLOCK = "…", re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUSYBOX = "docker.io/library/busybox"
FROM_HERE = """
site=$(echo /opt/resctrl-hooks/lib/python3*/site-packages)
echo "import site; site.addsitedir('$(echo /opt/venv/lib/python3*/site-packages)')" >$site/here.pth
sed '1s,.*,#!/opt/resctrl-hooks/bin/python,' /job/bin/resctrl-hook >/opt/resctrl-hooks/bin/resctrl-hook
chmod +x /opt/resctrl-hooks/bin/resctrl-hook
"""
"""Replacement for pip's installation: the guest has the packages elsewhere, and no network."""
INSTEAD = {
    "python3 -m venv /opt/resctrl-hooks": "python3 -m venv --without-pip /opt/resctrl-hooks",
    "/opt/resctrl-hooks/bin/pip install -q .": FROM_HERE,
    "/opt/resctrl-hooks/bin/pip install -q '.[simulation]'": FROM_HERE,
    "/opt/resctrl-hooks/bin/pip install -q -U .": "true",
    f"podman pull -q {BUSYBOX}": f"podman tag localhost/busybox:test {BUSYBOX}",
}
"""Replacements for commands that need a network or would take long."""


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Return all that the page wants typed, and the expected outputs."""
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert all(block.startswith("# ") for block in blocks)
    typed = [line for block in blocks for line in re.split("^# ", block, flags=re.MULTILINE)[1:]]
    return [(first, shown) for first, *shown in (text.splitlines() for text in typed)]


def pattern(expected: list[str]) -> str:
    """Return the expected output as an expression: `…` is any text within a line, alone in a line any lines or none.

    A column's width depends on its content, so a run of blanks counts as one.
    """
    words = [" ".join(re.escape(word).replace(ANY, ".*") for word in line.split()) for line in expected]
    return "".join("(?:.*\n)*?" if line == ".*" else rf"{line}\n" for line in words)


@pytest.fixture
def host(image: str, resctrl: Resctrl) -> Iterator[None]:
    """Return a host with an image but without this project's files, which is always cleaned up."""
    clear_host()
    yield
    run(["mv", "/root/away", "/usr/local/libexec/resctrl-hooks"], check=False)
    run(["podman", "rm", "--all", "--force", "--time=0"], check=False)
    clear_host()
    run(["umount", "/run/simulated-resctrl"], check=False)
    run(["mount", "-t", "resctrl", "resctrl", os.environ["RESCTRL_ROOT"]], check=False)  # a page unmounts it
    run(["podman", "untag", BUSYBOX, BUSYBOX], check=False)  # this name only: others need the image
    run(["rm", "-rf", "/opt/resctrl-hooks", "/usr/local/bin/resctrl-hook"])


@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(host: None, page: str) -> None:
    assert set(INSTEAD) <= {typed for page in PAGES for typed, _ in commands(page)}
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    plain = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "TERM=dumb", path]
    wrong = []
    for typed, expected in commands(page):
        printed = run([*plain, "sh", "-c", 'cd; exec bash -c "$1"', "sh", INSTEAD.get(typed, typed)], check=False)
        print(f"# {typed}\n{printed}", end="")  # the transcript, to correct the page
        normal = "".join(" ".join(line.split()) + "\n" for line in printed.splitlines())
        if not re.fullmatch(pattern(expected), normal):
            wrong.append(f"# {typed}\n{printed}--- but the page says:\n" + "".join(f"{line}\n" for line in expected))
    assert wrong == [], "\n".join(wrong)
