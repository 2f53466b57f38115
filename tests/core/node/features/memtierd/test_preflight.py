"""Requirements that memtierd does not check itself."""

from pathlib import Path

import pytest
from conftest import FIXTURES, Host, always
from hosts.memtierd import TEMPLATE, MemtierdHost, program
from hosts.processes import is_alive

from resctrl_hooks.core.node.features.memtierd import preflight as memtierd_needs
from resctrl_hooks.core.node.features.memtierd.preflight import Needs, lacking, swap_total
from resctrl_hooks.core.node.settings import Settings


def test_requirements_of_sample_are_listed() -> None:
    sample = (FIXTURES / "nri-memtierd.yaml").read_text()
    swapping, tracking = sample.split("- name: track-working-set-size")
    assert (Needs(swapping).trackers, Needs(swapping).swaps) == (["idlepage"], True)
    assert (Needs(tracking).trackers, Needs(tracking).swaps) == (["idlepage"], False)
    assert Needs("command: a:b:c\nname: x:idlepage\nname: softdirty").trackers == ["softdirty"]
    assert Needs('{"tracker": {\n"name": "damon",\n"swapoutms": 0}}').trackers == ["damon"]


@pytest.mark.parametrize("text, size", [("MemTotal: 7 kB\nSwapTotal: 50 kB\n", 50 << 10), ("MemTotal: 7 kB\n", 0)])
def test_swap_space_is_in_bytes(host: Host, text: str, size: int) -> None:
    (host.proc / "meminfo").write_text(text)
    assert swap_total(str(host.proc)) == size


def test_missing_requirements_are_listed(host: Host) -> None:
    settings = Settings({"procPath": str(host.proc), "sysPath": str(host.root / "sys"), "cgroupPath": str(host.cgroup)})
    (host.proc / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 0 kB\n")
    leaf = host.cgroup / "a/b"
    leaf.mkdir(parents=True)
    (host.cgroup / "a/memory.swap.max").write_text("0\n")
    (leaf / "memory.swap.max").write_text("max\n")
    fatal, idle = lacking(Needs("name: idlepage\nswapoutms: 10"), settings, str(leaf))
    assert "CONFIG_IDLE_PAGE_TRACKING" in fatal[0]
    assert "no swap space" in idle[0]
    assert f"memory.swap.max is 0 in {host.cgroup}/a; memtierd cannot swap" in idle[1]
    (host.proc / "meminfo").write_text("MemTotal: 100 kB\nSwapTotal: 50 kB\n")
    (host.cgroup / "a/memory.swap.max").write_text("max\n")
    (host.root / "sys/kernel/mm/page_idle").mkdir(parents=True)
    fatal, idle = lacking(Needs("name: idlepage\nswapoutms: 10"), settings, str(leaf))
    assert (idle, [words for words in fatal if "idlepage" in words]) == ([], [])


# The numbers are capability.h's, of the kernel's interface.
@pytest.mark.parametrize("bit, name", [(19, "CAP_SYS_PTRACE"), (21, "CAP_SYS_ADMIN"), (23, "CAP_SYS_NICE")])
def test_missing_capabilities_are_named(host: Host, monkeypatch: pytest.MonkeyPatch, bit: int, name: str) -> None:
    monkeypatch.setattr(memtierd_needs, "kernel_text", always(f"CapEff:\t{1 << bit:016x}"))
    others = [one for one in ("CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_SYS_NICE") if one != name]
    assert memtierd_needs.missing_capabilities() == others
    settings = Settings({"procPath": str(host.proc), "sysPath": "/sys", "cgroupPath": "/x"})
    assert lacking(Needs(""), settings, "")[0] == [
        f"{', '.join(others)} is missing from the capabilities; memtierd cannot work without it"
    ]


@pytest.mark.parametrize(
    "flags, works",
    [
        ([], True),
        (["rd wr mr"], False),
        (["rd wr", "rd sd mr", "rd"], True),
        (["rd", "rd"], False),
        (["sdx rd"], False),
    ],
)
def test_softdirty_needs_kernel_that_marks_new_mappings(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], works: bool
) -> None:
    smaps = "".join(f"55d0-55d1 r--p\nRss: 4 kB\nVmFlags: {line} \n7f00-7f01 rw-p sd\n" for line in flags)
    monkeypatch.setattr(memtierd_needs, "kernel_text", always(smaps))
    words = "" if works else "the tracker softdirty requires a kernel with CONFIG_MEM_SOFT_DIRTY"
    assert memtierd_needs.tracker_lacks(Settings({}), "softdirty") == words


def test_damon_needs_more_than_kernel_support(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings({"sysPath": str(tmp_path)})
    assert "CONFIG_DAMON_SYSFS" in memtierd_needs.tracker_lacks(settings, "damon")
    (tmp_path / "kernel/mm/damon/admin").mkdir(parents=True)
    monkeypatch.setattr(memtierd_needs, "ALL_FOLDERS", (str(tmp_path),))
    assert "bpftrace or perf" in memtierd_needs.tracker_lacks(settings, "damon")
    program(tmp_path / "perf")
    assert memtierd_needs.tracker_lacks(settings, "damon") == ""
    (tmp_path / "module/damon_stat/parameters").mkdir(parents=True)
    (tmp_path / "module/damon_stat/parameters/enabled").write_text("Y\n")
    assert "damon_stat" in memtierd_needs.tracker_lacks(settings, "damon")
    assert memtierd_needs.tracker_lacks(settings, "one that we don't know") == ""


def test_swapping_without_swap_is_a_warning(node: MemtierdHost) -> None:
    (node.host.proc / "meminfo").write_text("SwapTotal: 0 kB\n")
    node.configure(TEMPLATE + "swapoutms: 10000\n")
    outcome = node.start()
    assert outcome.code == 0
    assert "this node has no swap space" in outcome.stderr
    assert is_alive(node.pid())
