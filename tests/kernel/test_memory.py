"""Swap and memory limits on a real cgroup v2, with real swap, runtimes and systemd."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kernel.installed import Installed
from kernel.runtimes import Failed, Podman, Runtime, run, wait_until

CLASS, SWAP, HIGH = "class.memtierd.nri.io", "memory.swap.max.memtierd.nri.io", "memory.high.memtierd.nri.io"
CLASSES = [
    {"name": "noswap", "allowswap": False},
    {"name": "swap", "allowswap": True},
    {"name": "leave"},
]
SLEEP = ["/bin/sleep", "1000"]
SAMPLE = Path(__file__).parent.parent / "fixtures/nri-memtierd.yaml"
FILL = "dd if=/dev/zero of=/dev/filled bs=1M count=48 2>/dev/null; echo filled >/dev/done; sleep 1000"
"""A container's command that takes 48 MiB of memory that can be swapped but not dropped."""


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """Return the hook with the classes above; these tests need no RMID."""
    return Installed(
        str(tmp_path / "installed"),
        monitoring={"enabled": False},
        classes=CLASSES,
        memory={"allowLimits": {"*": ["*"]}},
    )


@pytest.fixture
def swap_device() -> Iterator[None]:
    """128 MiB of swap space, on the disk: the temporary folder may be a tmpfs, which can't hold it."""
    path = "/var/tmp/swap"
    with open(path, "wb") as out:
        os.posix_fallocate(out.fileno(), 0, 128 << 20)
    os.chmod(path, 0o600)
    subprocess.run(["mkswap", path], check=True, capture_output=True)
    subprocess.run(["swapon", path], check=True)
    yield
    subprocess.run(["swapoff", path], check=True)
    os.unlink(path)


def folder_of(pid: int) -> Path:
    path = Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::/")
    return Path("/sys/fs/cgroup") / path


def value(pid: int, name: str) -> str:
    return (folder_of(pid) / name).read_text().strip()


def create(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed, name: str, *command: str, **notes: str
) -> int:
    linux = {"cgroupsPath": runtime.cgroups_path(name)}
    annotations = {key.replace("_", "."): text for key, text in notes.items()}
    runtime.create(
        name, bundle(name, list(command) or SLEEP, hooks=installed.hooks, annotations=annotations, linux=linux)
    )
    return runtime.pid(name)


@pytest.mark.parametrize(
    "annotations, swap, high",
    [
        ({CLASS: "noswap"}, "0", "max"),
        ({CLASS: "swap"}, "max", "max"),
        ({CLASS: "leave"}, str(8 << 20), "max"),
        ({}, str(8 << 20), "max"),
        ({CLASS: "noswap", SWAP: "16M", HIGH: "64M"}, str(16 << 20), str(64 << 20)),
    ],
)
def test_limits_apply_before_first_instruction(
    runtime: Runtime,
    bundle: Callable[..., str],
    installed: Installed,
    annotations: dict[str, str],
    swap: str,
    high: str,
) -> None:
    # The runtime's own setting: memory.swap.max of 8 MiB.
    linux = {
        "cgroupsPath": runtime.cgroups_path("m1"),
        "resources": {"memory": {"limit": 128 << 20, "swap": 136 << 20}},
    }
    runtime.create("m1", bundle("m1", SLEEP, hooks=installed.hooks, annotations=annotations, linux=linux))
    pid = runtime.pid("m1")
    before = value(pid, "memory.swap.max"), value(pid, "memory.high")
    runtime.start("m1")
    assert (value(pid, "memory.swap.max"), value(pid, "memory.high")) == before
    above = folder_of(pid).parent
    if above.name.endswith(".scope"):
        # The scope above crun's own cgroup must also permit a class's limit. (By default crun gives the scope memory
        # and swap together as its swap.)
        assert (above / "memory.swap.max").read_text().strip() == (str(136 << 20) if swap == str(8 << 20) else swap)
    assert before == (swap, high), installed.said()


def test_value_of_the_specification_stays_and_the_others_apply(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    linux = {
        "cgroupsPath": runtime.cgroups_path("m9"),
        "resources": {"memory": {"limit": 128 << 20}, "unified": {"memory.high": str(96 << 20)}},
    }
    annotations = {CLASS: "noswap", HIGH: "64M"}
    runtime.create("m9", bundle("m9", SLEEP, hooks=installed.hooks, annotations=annotations, linux=linux))
    pid = runtime.pid("m9")
    assert (value(pid, "memory.high"), value(pid, "memory.swap.max")) == (str(96 << 20), "0"), installed.said()


@pytest.mark.parametrize("name", ["swap", "noswap"])
def test_process_is_reclaimed_at_its_limit(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed, swap_device: None, name: str
) -> None:
    pid = create(runtime, bundle, installed, f"r-{name}", "/bin/sh", "-c", FILL, class_memtierd_nri_io=name)
    runtime.start(f"r-{name}")
    done = Path(f"/proc/{pid}/root/dev/done")
    wait_until(done.exists, "the container has filled its memory")
    with contextlib.suppress(OSError) if name == "noswap" else contextlib.nullcontext():
        # EAGAIN if less could be reclaimed than asked for, which it must not be where swapping is allowed.
        (folder_of(pid) / "memory.reclaim").write_text("24M")
    swapped = int(value(pid, "memory.swap.current"))
    assert swapped > 8 << 20 if name == "swap" else swapped == 0


def test_daemon_reload_and_update_keep_limits(
    runtime: Runtime, bundle: Callable[..., str], installed: Installed
) -> None:
    if runtime.driver == "cgroupfs":
        pid = create(runtime, bundle, installed, "d1", class_memtierd_nri_io="noswap")
        assert value(pid, "memory.swap.max") == "0"
        return
    annotations = {"class_memtierd_nri_io": "noswap", "memory_high_memtierd_nri_io": "64M"}
    pid = create(runtime, bundle, installed, "d1", **annotations)
    for words in (["systemctl", "daemon-reload"], [*runtime_update(runtime), "d1"]):
        run(words)
        assert (value(pid, "memory.swap.max"), value(pid, "memory.high")) == ("0", str(64 << 20)), words
        scope = folder_of(pid) if runtime.name == "runc" else folder_of(pid).parent
        assert (scope / "memory.high").read_text().strip() == str(64 << 20), words
    runtime.kill("d1")
    runtime.delete("d1")
    assert not [path for path in Path("/run/systemd").rglob("*test-d1*") if path.exists()]


def runtime_update(runtime: Runtime) -> list[str]:
    return [runtime.name, "--systemd-cgroup", "update", "--memory", str(200 << 20)]


def test_refusals_have_kernel_words(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    for number, (annotations, words) in enumerate(
        [
            ({"class_memtierd_nri_io": "gone"}, "unknown memory class 'gone'"),
            ({"memory_high_memtierd_nri_io": "010"}, "invalid memory.high '010'"),
            ({"memory_high_memtierd_nri_io": "8192"}, "would stall"),
        ]
    ):
        with pytest.raises(Failed):
            create(runtime, bundle, installed, f"w{number}", **annotations)
        assert words in installed.said()
        runtime.delete(f"w{number}", force=True, check=False)


def test_plugin_sample_works_unchanged(runtime: Runtime, bundle: Callable[..., str], installed: Installed) -> None:
    sample = yaml.safe_load(SAMPLE.read_text())
    installed.configure(
        **sample, monitoring={"enabled": False}, memtierd={"failurePolicy": "ignore"}, memory={"failurePolicy": "fail"}
    )
    pid = create(runtime, bundle, installed, "s1", class_memtierd_nri_io="swap-idle-data")
    assert value(pid, "memory.swap.max") == "max"
    assert "CONFIG_IDLE_PAGE_TRACKING" in installed.said() or "program memtierd" in installed.said()


def test_podman_containers_get_limits(podman: Callable[..., Podman], image: str, installed: Installed) -> None:
    engine = podman(installed.write_hooks_d())
    engine.run(image, "sleep 1000", "-d", "--name=m", f"--annotation={CLASS}=noswap")
    pid = int(engine.command("inspect", "-f", "{{.State.Pid}}", "m").strip())
    assert value(pid, "memory.swap.max") == "0", installed.said()
