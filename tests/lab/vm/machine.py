"""Boots the guest with a job, without root; changes to the guest's disk are discarded after each boot."""

import contextlib
import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import emulator
import guest
import job
import kernels
from cache import VmError, say
from results import write

INTEL = "max,vendor=GenuineIntel,family=6,model=143,level=0x1f"
"""An Intel server processor by its name plate: the kernel enables resctrl by CPUID, and some quirks by the model."""
AMD = "EPYC-Genoa,level=0x1f,xlevel=0x80000022"  # one of AMD's with the leaves that say what it can do for resctrl
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
SOCKETS = 2  # hence two L3 domains, `mon_L3_00` and `mon_L3_01`, unless there is only one processor
QUIET = ("console=ttyS0", "panic=-1", "oops=panic", "loglevel=5")
FAST = ("mitigations=off", "tsc=reliable", "transparent_hugepage=never", "nogbpages")
"""Page-table isolation, above all, costs an emulated processor more than half of its time; large pages a tenth: to
forget a single page among them, the emulator forgets all that it has translated.
"""
MEMORY = 3072  # MiB
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "oobmsm.py")
LEDGER_SIZE = 512 << 10
_SECONDS = 20
_RUNNING: set[subprocess.Popen[bytes]] = set()  # the emulators of this process, for `end_all`
_ENDING = threading.Event()


@dataclasses.dataclass(frozen=True)
class Boot:
    """What one boot of the guest differs in from another."""

    rmids: int = 32  # that the processor reports (one is the root group's)
    closids: int = 8  # that it reports (one is the root class's)
    occupancy: int = 0
    """What `llc_occupancy` reports, in units of 64 KiB. Above the kernel's `info/L3_MON/max_threshold_occupancy` a
    freed RMID stays in limbo and mkdir answers EBUSY."""
    init: str = "shell"  # a small script as init that mounts what a host has, or `systemd`
    cpus: int = 2
    """One, or an even number with half of them in each of two sockets. With one the emulator need not keep processors
    in step, which makes the guest a quarter faster."""
    numa: int = 0  # NUMA nodes that these processors and the memory are shared out to; 0: a machine without any
    count: int = 0  # whether the bandwidth counters count what the guest does (they grow with time otherwise)
    amd: int = 0  # whether the processor is AMD's
    counters: int = 0  # bandwidth counters that AMD's can assign in each L3 domain; 0: it has one for each RMID
    snc: int = 1  # Sub-NUMA clusters of each socket, each a NUMA node: `cpus=4, numa=4, snc=2`
    width: int = 0  # bits of a bandwidth counter, 24 or more; 0 stands for Intel's 32 and AMD's 44
    near: int = 0  # units (64 bytes, if they count) left before their end with which the bandwidth counters start
    sparse: int = 0  # whether Intel's masks of cache ways may have holes; AMD's always may
    bandwidth: int = 0  # MB/s of an L3 domain's memory, for which its processors queue; MBA acts. 0: no limit
    core: int = 0  # MB/s that one processor asks for at most; 0: three quarters of `bandwidth`
    memory_cpus: int = 0  # processors that share one memory; 0: those of an L3 domain
    root: int = 1  # whether the kernel and tasks of the root group queue for memory and count, too
    pmu: int = 0  # whether the processor has performance counters
    cache: int = 0  # MiB of an L3 that processors of a domain share; 0: none, and each access goes to memory
    sockets: int = 0  # each an L3 domain; 0: two, or one where there is only one processor
    threads: int = 1  # hyperthreads of a core. They are like other processors: none slows its sibling
    aet: int = 0  # whether each socket counts energy by RMID, on the kernel that has that; the counters then count, too
    perf_rmids: int = 128  # for how many RMIDs the processor says that it counts performance events
    rdt: int = 1  # whether the processor has RDT; without it the kernel has no resctrl, as in most virtual machines
    hmat: int = 0  # MB/s of the first NUMA node by the firmware's HMAT, the Nth has N times as much; 0: no HMAT
    dimms: int = 0  # MT/s of the memory module in the firmware's SMBIOS table; 0: unknown
    arguments: str = ""  # more of the kernel's command line

    def __str__(self) -> str:
        differing = [
            f"{field.name}={value}"
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return ",".join(differing) or "default"

    @property
    def cpu_model(self) -> str:
        is_measured = self.count or self.aet or self.bandwidth or self.cache
        return (AMD if self.amd else INTEL) + ("" if is_measured else IN_WORDS)

    @property
    def packages(self) -> int:
        return self.sockets or min(self.cpus, SOCKETS)

    @property
    def processors(self) -> list[str]:
        cores = self.cpus // self.packages // self.threads
        shape = f"{self.cpus},sockets={self.packages},cores={cores},threads={self.threads}"
        words = ["-smp", shape, "-m", str(MEMORY)]
        for node in range(self.numa):
            each = self.cpus // self.numa
            words += ["-object", f"memory-backend-ram,id=memory{node},size={MEMORY // self.numa}M"]
            words += ["-numa", f"node,nodeid={node},cpus={node * each}-{node * each + each - 1},memdev=memory{node}"]
            if self.hmat:
                bandwidth = "hmat-lb,hierarchy=memory,data-type=access-bandwidth"
                words += ["-numa", f"{bandwidth},initiator={node},target={node},bandwidth={self.hmat * (node + 1)}M"]
        return words

    @property
    def firmware(self) -> list[str]:
        """The machine and its firmware's tables, as the emulator's options."""
        return [
            *("-machine", f"q35,hmat={'on' if self.hmat else 'off'}"),
            *(("-smbios", f"type=17,speed={self.dimms}") if self.dimms else ()),
        ]

    @property
    def plugin_options(self) -> str:
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
    """Yield the machine with kernel `kernel` (one of kernels.NAMES); missing parts are built first."""
    with (
        guest.guest() as made,
        emulator.plugin(made) as plugin,
        kernels.kernel(kernel, made) as kernel_files,
        job.compiled(made) as compiled,
    ):
        yield Machine(made, plugin, kernel_files, compiled)


@dataclasses.dataclass(frozen=True)
class Devices:
    """The emulator's options for the devices."""

    plugin_option: str = ""
    options: tuple[str, ...] = ()


@contextlib.contextmanager
def served(packages: int, perf_rmids: int) -> Iterator[Devices]:
    """Yield the devices that count energy: a program for each package, to which QEMU connects."""
    if not packages:
        yield Devices()
        return
    with tempfile.TemporaryDirectory(prefix="aet-") as folder, contextlib.ExitStack() as stack:
        ledger = os.path.join(folder, "ledger")
        with open(ledger, "wb") as out:
            out.truncate(LEDGER_SIZE)
        options: list[str] = []
        for package in range(packages):
            socket = os.path.join(folder, f"package{package}")  # a socket's path is short, so it is not in the cache
            words = [sys.executable, PROGRAM, socket, ledger, str(package), str(perf_rmids)]
            process = stack.enter_context(subprocess.Popen(words, stdout=subprocess.DEVNULL))
            stack.callback(process.kill)
            end = time.monotonic() + _SECONDS
            while not os.path.exists(socket):
                if process.poll() is not None or time.monotonic() > end:
                    raise VmError("the device that counts energy does not start")
                time.sleep(0.02)
            device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": socket}}
            options += ["-device", json.dumps(device)]
        yield Devices(f",share={ledger}", tuple(options))


def _disk(serial: str, path: str, options: str) -> list[str]:
    """Return a disk that the guest finds by its serial: the kernel names disks in any order."""
    path = path.replace(",", ",,")  # QEMU's way to write a comma
    return [
        *("-drive", f"file={path},if=none,id={serial},format=raw,{options}"),
        *("-device", f"virtio-blk-pci,drive={serial},serial={serial}"),
    ]


def _command(machine: Machine, boot: Boot, work: str, *, shell: bool, energy: Devices) -> list[str]:
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
        *("-accel", "tcg,thread=multi", *boot.firmware, "-cpu", boot.cpu_model, *boot.processors),
        *(("-plugin", f"{machine.plugin},{boot.plugin_options}{energy.plugin_option}") if boot.rdt else ()),
        *energy.options,
        *("-kernel", f"{machine.kernel}/kernel", "-initrd", f"{machine.kernel}/initrd.gz", "-append", " ".join(append)),
        *disks,
        *("-serial", console, "-serial", f"file:{work}/output"),
        *("-display", "none", "-nic", "none", "-no-reboot"),
        *(() if shell else ("-monitor", "none")),
    ]


def _follow(path: str, process: subprocess.Popen[bytes], deadline: float, show: Callable[[str], None]) -> None:
    """Show the job's output as it comes, until the emulator has ended."""
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
) -> int:
    """Boot the guest, run `script` (for sh, in the project's folder) as root, power off; return the job's exit status.

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
            served(SOCKETS if boot.aet else 0, boot.perf_rmids) as energy,
            _emulator(_command(machine, boot, work, shell=shell, energy=energy), machine, work, shell=shell) as process,
        ):
            if shell:
                process.wait()
            else:
                _follow(output, process, time.monotonic() + limit, show or write)
        return job.results(work)
    except VmError as trouble:
        say(f"last lines of its console:\n  {_tail(work)}")
        raise VmError(f"{trouble}; everything it said: {work}") from trouble
    finally:
        os.remove(os.path.join(work, job.DISK))
