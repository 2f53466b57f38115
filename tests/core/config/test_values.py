"""The accepted and refused values of each kind, at its bounds, and the compiled value where it is another one."""

# ruff: noqa: E501  # a place and its values stand on one line

from typing import Any

import pytest
from conftest import Host

from core.config.judged import assert_accepted_also_as_compiled, assert_remarked_here, cases, compiled
from resctrl_hooks.core.config.check import check_text

SCHEDULING = "scheduling: {classes: {a: {%s}}}"
MEMTIERD = "memtierd: {%s}"
BLOCKIO = "blockio: {classes: {a: [{%s}]}}"
DEVICES = 'blockio: {classes: {a: [{devices: ["%s"], weight: 5}]}}'
RDT = "rdt: {classes: {a: {%s}}}"

# A place in a configuration, values that are valid there, and values that are not; one on each line.
VALUES = [
    ("stateDir: %s", "/a | /a/b | /a/..b | /", "a | ./a | /.. | /a/../b | /a/.."),
    ("groupPrefix: %s", f"a | {'p' * 191} | a.b_-+", f"{'p' * 192} | .a | a/b"),
    ("namespaces: [%s]", "a | a* | '?' | ''", "'a[b]'"),
    (MEMTIERD % "binary: %s", "memtierd | /opt/memtierd | /a/b", "'' | a/b | ./memtierd | /a/../b | ../b"),
    (MEMTIERD % "memoryMax: '%s'", "512M | 1 | 512 | infinity | 2T | 10K | 3G", "0 | 0M | 512MB | -1 | 1P | 5.5G | infinite"),
    (SCHEDULING % "cpuMax: %s", "max | '1000' | '50000 100000' | 'max 1000' | '1000 1000000' | '999999999'", ""),
    (SCHEDULING % "cpuMax: '%s'", "", "999 | 0 | 01000 | min | '' | 1000 999 | 1000 1000001 | max x | -1000 | \N{SUPERSCRIPT TWO}000 | 10000000000000000000000"),
    (SCHEDULING % "memoryMax: '%s'", "max | 5M | 2G", "many | -1 | 5X"),
    (SCHEDULING % "hugepages: {%s: 1G}", "2MB | 1GB | 64KB | 16GB", "0MB | 2M | 1TB | 2mb | 02MB | 2MBx"),
    (SCHEDULING % "%s", "policy: rr, priority: 1 | cpuIdle: true | cpuIdle: false, cpuWeight: 5", ""),
    (SCHEDULING % "%s", "", "policy: rr | priority: 1 | policy: batch, priority: 1 | cpuIdle: true, cpuWeight: 5"),
    (SCHEDULING % "%s", "ioClass: best-effort, ioPriority: 1", "ioPriority: 1 | ioClass: idle, ioPriority: 1"),
    (DEVICES, "/dev/sda | /dev/sd[a-d] | /dev/sd[a-dx][1-9] | /dev/disk/by-id/* | /dev/nvme?n1 | /dev/sd[a]", ""),
    (DEVICES, "", "sda | /dev/ | /dev/a/../b | /dev/*/a | /dev/?/a | /dev/[a]/b | /dev/sd[ | /dev/sd] | /dev/sd[] | /dev/sd[d-a]"),
    (DEVICES, "", "/dev/sd[a][b][c] | /dev/sd[a-] | /dev/sd[!a] | /dev/sd[a]]"),
    (BLOCKIO % "devices: [/dev/sda], throttleReadBps: %s", "1 | 50M | 50Mi | 9k | 2T | 1Ki | 1.5M | 0.5Gi | 1e6 | 2P | .5k | 1.Ki", "0 | M | 50m | 50u | 50MB | -1 | 1.5 | 0.0k | 16E | 9999P | 1e99 | 99999999999999999"),
    (BLOCKIO % "%s", "weight: 1 | weight: 10000 | Weight: 5 | devices: [], weight: 5", "weight: 0 | weight: 10001"),
    (BLOCKIO % "%s", "", "throttleReadBps: 5 | devices: [], throttleReadIOPS: 5 | weight: 5, Weight: 5"),
    (RDT % "L3: '%s'", "ff | 0xff | 0xFF | FF | 0XfF | f | ffffffffffffffff | 60% | 100% | 1% | 40-99% | 0-5% | 100-100% | 7-7%", "0 | 101% | 0% | 0x | 0xG | x1f | 1ffffffffffffffff | -5% | 60-50% | 100-1% | 1-0% | 0-0% | 50-101%"),
    (RDT % "L3: %s", "{'0': ff} | {'999999': f}", "255 | 0xff | 11 | {'1000000': f} | {'': f} | {a: f}"),
    (RDT % "MB: %s", "1 | 100 | 50% | 2000MBps | 2GBps | [50%, 2GBps] | {'0': 5} | {'0': [5, 50%]}", "0 | -1 | true | 1.5 | 0% | x | [] | [0] | {'0': []}"),
    (RDT % "MB: %s", "", "{a: 5} | {'0': [5, 0]} | 50percent"),
    ("rdt: {classes: {'%s': {}}}", "gold | /", "a/b | .."),
    ("rdt: {classes: {a: {exclusive: true, L3: '50%%'}, b: {exclusive: true, L3: '%s'}}}", "49% | f | 10-60%", "50% | 60%"),
    ("monitoring: {capacity: %s}", "180GB/s | 5MBps | 180G | 1.5T | 900M | 5kB/s | '1.5 GB/s' | {'0': 180GB/s, '*': 5MB/s}", "180 | 0GB/s | 5KB/s | 180GB | 1Gbps | 1Gi | {a: 5GB/s} | {'0': 5}"),
    ("monitoring: {events: [%s]}", "mbm_local_bytes | mbm_local_bytes, mbm_total_bytes", "'' | x"),
    ("monitoring: {events: [%s]}", "", "mbm_local_bytes, mbm_local_bytes"),
    ("monitoring: {share: {interval: 30s, atLeast: %s}}", "30s | 0 | 0s", "31s | -1"),
    ("monitoring: {share: {interval: %s}}", "1 | 1s | 1000ms | 0.5h", "0.9 | 999ms | 1S | 1d | .5s | ''"),

]  # fmt: skip


@pytest.mark.parametrize("text", cases(VALUES, 1))
def test_value_is_accepted_also_as_compiled(text: str) -> None:
    assert_accepted_also_as_compiled(text)


@pytest.mark.parametrize("text", cases(VALUES, 2))
def test_value_is_refused(text: str) -> None:
    assert check_text(text.encode(), "c.yaml").errors != []


L3, THROTTLE = ("rdt", "classes", "a", "l3"), ("blockio", "classes", "a", 0, "throttle_read_bps")


@pytest.mark.parametrize(
    "text, path, value",
    [
        ("stateDir: /a//", ("state_dir",), "/a"),
        ("stateDir: /", ("state_dir",), "/"),
        ("monitoring: {capacity: 180GB/s}", ("monitoring", "capacity"), {"*": 180e9}),
        ("monitoring: {capacity: 1G}", ("monitoring", "capacity"), {"*": 1e9}),
        ("monitoring: {capacity: {'0': 5 MBps, '*': 1.5GB/s}}", ("monitoring", "capacity"), {"0": 5e6, "*": 1.5e9}),
        ("runtimeRoots: /run/runc", ("runtime_roots",), {"all": ["/run/runc"]}),
        ("runtimeRoots: ''", ("runtime_roots",), {}),
        *((f"rdt: {{classes: {{a: {{L3: '{one}'}}}}}}", L3, "ff") for one in ("0xff", "FF", "0Xff")),
        *((BLOCKIO % f"devices: [/dev/sda], throttleReadBps: {text}", THROTTLE, value) for text, value in (
            ("1.5M", 1_500_000), ("0.5Gi", 1 << 29), ("1e6", 1_000_000), (".5k", 500), ("1.0001k", 1001),
            ("50Mi", "50Mi"),  # the form of earlier versions
        )),
    ],
)  # fmt: skip
def test_value_is_compiled(text: str, path: tuple[str | int, ...], value: Any) -> None:
    assert compiled(text, path) == value


def test_class_that_this_machine_does_not_support_has_a_remark(host: Host) -> None:
    text = "rdt: {classes: {a: {L2: ff}, b: {MB: 50}}}"
    assert_remarked_here(host, text, "rdt.classes.a", "not supported on this machine: ")
