"""Boots the guest with a job: a folder as a tar on one disk, and results as a tar on another disk.

It needs no root and changes nothing on the machine: changes to the guest's disk are discarded after each boot.
"""

import contextlib
import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import bytecode
import emulator
import energy_devices
import guest
import job
import kernels
from cache import VmError, say

INTEL = "max,vendor=GenuineIntel,family=6,model=143,level=0x1f"
"""An Intel server processor by its name plate: the kernel enables resctrl by CPUID, and some quirks by the model."""
AMD = "EPYC-Genoa,level=0x1f,xlevel=0x80000022"
"""One of AMD's with the leaves that say what it can do for resctrl."""
IN_WORDS = ",erms=off,fsrm=off,fzrm=off,fsrs=off"
"""Without fast string instructions, with which the kernel and the C library clear and copy memory byte by byte.

The emulator makes a loop of each byte: a process starts in two thirds of the time without them. Guests whose accesses
to memory are counted or queued keep them, because tests and figures know the traffic of a copy by them.
"""
PLUGIN_OPTIONS = (
    *("rmids", "closids", "occupancy", "count", "amd", "counters", "snc", "width", "near", "sparse"),
    *("bandwidth", "core", "memory_cpus", "root", "pmu", "cache"),
)
"""What of a boot is for the plugin (rdt.c) to do."""
SOCKETS = 2
"""Hence two L3 domains, `mon_L3_00` and `mon_L3_01`, unless there is only one processor."""
QUIET = ("console=ttyS0", "panic=-1", "oops=panic", "loglevel=5")
FAST = ("mitigations=off", "tsc=reliable", "transparent_hugepage=never", "nogbpages")
"""Page-table isolation, above all, costs an emulated processor more than half of its time; large pages a tenth: to
forget a single page among them, the emulator forgets all that it has translated.
"""
MEMORY = 3072  # MiB
_RUNNING: set[subprocess.Popen[bytes]] = set()
"""The emulators of this process, for `end_all`."""
_ENDING = threading.Event()


@dataclasses.dataclass(frozen=True)
class Boot:
    """What one boot of the guest differs in from another.

    Args:
        rmids: how many RMIDs the processor reports (one is the root group's).
        closids: how many CLOSIDs it reports (one is the root class's).
        occupancy: what `llc_occupancy` counters report, in units of 64 KiB. Above the kernel's threshold
            (`info/L3_MON/max_threshold_occupancy`) a freed RMID stays in limbo and mkdir answers EBUSY.
        cpus: how many processors: one, or an even number with half of them in each of two sockets. With one the
            emulator need not keep processors in step, which makes the guest a quarter faster.
        init: `shell`, a small script as init that mounts what a host has, or `systemd`.
        numa: how many NUMA nodes these processors and the memory are shared out to; 0 is a machine without any.
        count: whether the bandwidth counters count what the guest does (they grow with time otherwise).
        amd: whether the processor is AMD's.
        counters: how many bandwidth counters AMD's can assign in each L3 domain; 0: it has one for each RMID.
        snc: how many Sub-NUMA clusters each socket has, each a NUMA node: `cpus=4, numa=4, snc=2`.
        width: bits of a bandwidth counter, 24 or more; 0 stands for Intel's 32 and AMD's 44.
        near: with how many units (64 bytes, if they count) left before their end the bandwidth counters start.
        sparse: whether Intel's masks of cache ways may have holes; AMD's always may.
        bandwidth: MB/s that the memory of an L3 domain carries; its processors queue for it, and MBA acts. 0: no limit.
        core: MB/s that one processor asks for at most; 0: three quarters of `bandwidth`.
        memory_cpus: processors that share one memory; 0: those of an L3 domain.
        root: whether the kernel and tasks of the root group queue for memory and count, too.
        pmu: whether the processor has performance counters.
        cache: MiB of an L3 that processors of a domain share; 0: none, and each access goes to memory.
        sockets: how many sockets, each an L3 domain; 0: two, or one where there is only one processor.
        threads: how many hyperthreads a core has. They are like other processors: none slows its sibling.
        aet: whether each socket counts energy by RMID, on the kernel that has that; the counters then count, too.
        perf_rmids: for how many RMIDs the processor says that it counts performance events.
        arguments: more of the kernel's command line.
    """

    rmids: int = 32
    closids: int = 8
    occupancy: int = 0
    init: str = "shell"
    cpus: int = 2
    numa: int = 0
    count: int = 0
    amd: int = 0
    counters: int = 0
    snc: int = 1
    width: int = 0
    near: int = 0
    sparse: int = 0
    bandwidth: int = 0
    core: int = 0
    memory_cpus: int = 0
    root: int = 1
    pmu: int = 0
    cache: int = 0
    sockets: int = 0
    threads: int = 1
    aet: int = 0
    perf_rmids: int = 128
    arguments: str = ""

    def __str__(self) -> str:
        """Return the differences from the defaults, for people and file names."""
        differing = [
            f"{field.name}={value}"
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return ",".join(differing) or "default"

    @property
    def cpu_model(self) -> str:
        """The model of its processors, as the emulator's option."""
        is_measured = self.count or self.aet or self.bandwidth or self.cache
        return (AMD if self.amd else INTEL) + ("" if is_measured else IN_WORDS)

    @property
    def packages(self) -> int:
        """The number of sockets."""
        return self.sockets or min(self.cpus, SOCKETS)

    @property
    def processors(self) -> list[str]:
        """CPUs and memory as the emulator's options."""
        cores = self.cpus // self.packages // self.threads
        shape = f"{self.cpus},sockets={self.packages},cores={cores},threads={self.threads}"
        words = ["-smp", shape, "-m", str(MEMORY)]
        for node in range(self.numa):
            each = self.cpus // self.numa
            words += ["-object", f"memory-backend-ram,id=memory{node},size={MEMORY // self.numa}M"]
            words += ["-numa", f"node,nodeid={node},cpus={node * each}-{node * each + each - 1},memdev=memory{node}"]
        return words

    @property
    def plugin_options(self) -> str:
        """The RDT plugin's part of it."""
        values = {name: getattr(self, name) for name in PLUGIN_OPTIONS} | {"domain_cpus": self.cpus // self.packages}
        if self.aet:
            values["count"] = 1
        return ",".join(f"{name}={value}" for name, value in values.items())


@dataclasses.dataclass(frozen=True)
class Machine:
    """The parts that a boot needs, all built and in use."""

    guest: str
    plugin: str
    kernel: str
    bytecode: str


@contextlib.contextmanager
def built(kernel: str) -> Iterator[Machine]:
    """Yield the machine with kernel `kernel` (one of kernels.NAMES); missing parts are built first.

    Raises:
        VmError: it cannot be built here.
    """
    with (
        guest.guest() as made,
        emulator.plugin(made) as plugin,
        kernels.kernel(kernel, made) as kernel_files,
        bytecode.compiled(made) as compiled,
    ):
        yield Machine(made, plugin, kernel_files, compiled)


@dataclasses.dataclass
class Outcome:
    """The end of a boot: the job's exit status, and the folder with its /results."""

    status: int
    folder: str


def _disk(serial: str, path: str, options: str) -> list[str]:
    """Return a disk that the guest finds by its serial: the kernel names disks in any order."""
    path = path.replace(",", ",,")  # QEMU's way to write a comma
    return [
        *("-drive", f"file={path},if=none,id={serial},format=raw,{options}"),
        *("-device", f"virtio-blk-pci,drive={serial},serial={serial}"),
    ]


def _command(machine: Machine, boot: Boot, work: str, *, shell: bool, energy: energy_devices.Devices) -> list[str]:
    append = [*QUIET, *FAST, *boot.arguments.split()]
    if boot.init == "systemd":
        append += ["vm.systemd", "systemd.show_status=0", "systemd.unit=multi-user.target"]
        append += ["systemd.wants=guest-job.service"]
    if shell:
        append += ["vm.shell", "quiet"]
    disks = [
        *_disk("root", os.path.join(machine.guest, "disk.img"), "snapshot=on"),
        *_disk("job", os.path.join(work, job.DISK), "readonly=on"),
        *_disk("results", os.path.join(work, job.RESULTS), "cache=unsafe"),
    ]
    if os.path.exists(modules := os.path.join(machine.kernel, "modules.img")):
        disks += _disk("modules", modules, "readonly=on")
    console = "mon:stdio" if shell else f"file:{work}/console"
    return [
        *emulator.qemu(machine.guest),
        *("-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", boot.cpu_model, *boot.processors),
        *("-plugin", f"{machine.plugin},{boot.plugin_options}{energy.plugin_option}"),
        *energy.options,
        *("-kernel", f"{machine.kernel}/kernel", "-initrd", f"{machine.kernel}/initrd.gz", "-append", " ".join(append)),
        *disks,
        *("-serial", console, "-serial", f"file:{work}/output"),
        *("-display", "none", "-nic", "none", "-no-reboot"),
        *(() if shell else ("-monitor", "none")),
    ]


def _follow(path: str, process: subprocess.Popen[bytes], deadline: float, show: Callable[[str], None]) -> None:
    """Show the job's output as it comes, until the emulator has ended.

    Raises:
        VmError: the guest was still running at `deadline` (of time.monotonic).
    """
    with open(path, "rb") as output:
        ended = False
        while True:
            if new := output.read():
                show(new.decode(errors="replace").replace("\r", ""))
            elif ended:
                return
            elif time.monotonic() > deadline:
                raise VmError("the guest did not end in time")
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
            ended = process.poll() is not None


@contextlib.contextmanager
def _emulator(command: list[str], machine: Machine, work: str, *, shell: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the running emulator; it never outlives the context."""
    with open(os.path.join(work, "qemu"), "wb") as log:
        process = subprocess.Popen(
            command,
            stdin=None if shell else subprocess.DEVNULL,
            stdout=None if shell else log,
            stderr=None if shell else log,
            env=emulator.environment(machine.guest),
            start_new_session=not shell,  # ^C is for us, and then we end it; in a shell it is for the guest
        )
    _RUNNING.add(process)
    if _ENDING.is_set():
        process.kill()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        _RUNNING.discard(process)


def end_all() -> None:
    """End the emulators of other threads, whose boots then fail, and prevent further ones."""
    _ENDING.set()
    for process in list(_RUNNING):
        process.kill()


def _tail(work: str) -> str:
    """Return the last words of kernel and emulator, for an error message."""
    lines = []
    for name in ("console", "qemu"):
        with contextlib.suppress(OSError), open(os.path.join(work, name), encoding="utf-8", errors="replace") as log:
            lines += log.read().replace("\r", "").splitlines()[-15:]
    return "\n  ".join(lines)


def terminate_as_interrupt() -> None:
    """Handle SIGTERM (a cancelled CI job) like ^C, so that it also cleans up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def boot_once(  # each is a choice of the person who boots
    machine: Machine,
    boot: Boot,
    script: str,
    work: str,
    *,
    limit: float = 1800,
    shell: bool = False,
    environment: Mapping[str, str] | None = None,
    show: Callable[[str], None] | None = None,
) -> Outcome:
    """Boot the guest, run `script` (for sh, in the project's folder) as root and powers the guest off.

    Args:
        machine: from built().
        boot: how to boot it.
        script: the job.
        work: a folder for this boot's logs and results: `console` (the kernel's), `output` (the job's), `dmesg`,
            `journal` under systemd, and whatever the job put into /results.
        limit: seconds after which the guest is killed.
        shell: the job talks to this terminal rather than to a file.
        environment: the job's additional environment.
        show: what to do with what the job prints, in pieces, as it comes; by default it goes to standard output.

    Raises:
        VmError: the guest did not finish its job.
    """
    if shutil.disk_usage(work).free < job.RESULTS_SIZE:
        raise VmError(f"{work}: no space left for a guest")
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (environment or {}).items())
    output = os.path.join(work, "output")
    job.write(work, f"#!/bin/bash\n{exports}cd /job/project || exit\n{script}\n", machine.bytecode)
    with open(output, "wb"):
        pass  # to be followed from its beginning
    try:
        with (
            energy_devices.served(SOCKETS if boot.aet else 0, boot.perf_rmids) as energy,
            _emulator(_command(machine, boot, work, shell=shell, energy=energy), machine, work, shell=shell) as process,
        ):
            if shell:
                process.wait()
            else:
                _follow(output, process, time.monotonic() + limit, show or _show)
        return Outcome(job.results(work), work)
    except VmError as trouble:
        say(f"last lines of its console:\n  {_tail(work)}")
        raise VmError(f"{trouble}; everything it said: {work}") from trouble
    finally:
        os.remove(os.path.join(work, job.DISK))


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
