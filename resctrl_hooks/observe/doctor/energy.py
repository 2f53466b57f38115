"""Checks of energy counters: why they are absent, how many RMIDs they have, and which programs misread them.

Sources: Linux 7.2, arch/x86/Kconfig (X86_CPU_RESCTRL_INTEL_AET) and arch/x86/kernel/cpu/resctrl/intel_aet.c.
"""

import gzip
import re
from collections.abc import Iterator
from typing import Final

from resctrl_hooks.core.doctor.finding import Check, Finding, ok, warning
from resctrl_hooks.core.doctor.host import Host, names, read
from resctrl_hooks.core.node.resctrl.layouts import INFO, PERF, info_folder

_OPTION: Final = "CONFIG_X86_CPU_RESCTRL_INTEL_AET"
_NEEDED: Final = ("CONFIG_INTEL_PMT_TELEMETRY", "CONFIG_INTEL_TPMI")
_TELEMETRY: Final = "/sys/class/intel_pmt"
_RMIDS: Final = "per_rmid_energy_telemetry/num_rmids"
_BOOT: Final = f"boot Linux 7.0 or later with {_OPTION}=y"
_READERS: Final = (
    "point such programs at `resctrl-hook view DIR`, or use `resctrl-hook metrics`; docs/energy.md lists "
    "the affected pods"
)


def energy(host: Host) -> Iterator[Finding]:
    """Check whether the kernel counts energy, why not, and whether raw readers get correct numbers."""
    if not host.settings.monitoring["enabled"] or host.inventory is None:
        return
    info = f"{host.settings.resctrl_path}/info"
    if info_folder(PERF) in names(info):
        yield from _limit(host)
        yield from _readers(host)
    else:
        yield _absent(host)


def _absent(host: Host) -> Finding:
    """Return why resctrl has no energy counters."""
    words = [word for word in host.proc("cmdline").split() if word.startswith("rdt=")]
    if any("!energy" in word.partition("=")[2].split(",") for word in words):
        return warning(
            f"no energy counters: the kernel's command line disables them ({' '.join(words)})",
            "remove `!energy` and reboot",
        )
    config = _kernel_config(host)
    if config and config.get(_OPTION) != "y":
        modules = [f"{name}={config[name]}" for name in _NEEDED if config.get(name) not in ("y", None)]
        absent = [name for name in _NEEDED if name not in config]
        why = [f"set: {' and '.join(modules)}"] if modules else []
        why += [f"missing: {' and '.join(absent)}"] if absent else []
        also = f" ({'; '.join(why)})" if why else ""
        return _by_processor(
            host,
            f"no energy counters: this kernel has no {_OPTION}{also}",
            f"{_BOOT}; it needs {' and '.join(f'{name}=y' for name in _NEEDED)} (=m is not sufficient)",
        )
    if "insufficient RMIDs" in (host.run("dmesg") or ""):
        return warning(
            "no energy counters: the kernel disabled them because they have fewer RMIDs than other counters (see "
            "dmesg)",
            "add `rdt=energy` to the kernel's command line; this limits the number of groups to their RMIDs",
        )
    if config:
        return _by_processor(
            host,
            "no energy counters, although the kernel supports them",
            "reboot: the kernel detects them only at the first mount of resctrl after boot; see dmesg",
        )
    return _by_processor(host, "no energy counters", f"{_BOOT}; this kernel's configuration cannot be read")


def _by_processor(host: Host, text: str, remedy: str) -> Finding:
    """Return a warning if the processor has the counters, else an OK finding."""
    features = [name for name in host.tree.names(_TELEMETRY) if name.startswith("features-")]
    rmids = [host.text(f"{_TELEMETRY}/{name}/{_RMIDS}").strip() for name in features]
    found = next(filter(None, rmids), "")
    if found:
        return warning(f"{text}; the processor counts energy for {found} RMIDs", remedy)
    return ok(f"{text}; the processor reports none")


def _kernel_config(host: Host) -> dict[str, str]:
    """Return the running kernel's configuration by option; empty where it cannot be read."""
    text = host.text(f"/boot/config-{host.proc('sys/kernel/osrelease').strip()}")
    if not text:
        try:
            with gzip.open(f"{host.settings.proc_path}/config.gz", "rt", encoding="utf-8") as file:
                text = file.read()
        except OSError:
            return {}
    return dict(re.findall(r"^(CONFIG_\w+)=(\w+)$", text, re.MULTILINE))


def _limit(host: Host) -> Iterator[Finding]:
    """Check whether the energy counters' RMIDs limit the number of groups."""
    info = f"{host.settings.resctrl_path}/info"
    numbers = {
        name: int(text)
        for name in names(info)
        if name.endswith(INFO) and (text := read(f"{info}/{name}/num_rmids").strip()).isdecimal()
    }
    counts = ", ".join(read(f"{info}/{info_folder(PERF)}/mon_features").split())
    own = numbers.pop(info_folder(PERF), 0)
    fewest = min(numbers, key=lambda name: numbers[name], default="")
    if own and fewest and own < numbers[fewest]:
        yield warning(
            f"{counts} have {own} RMIDs and {fewest} has {numbers[fewest]}: there can be {own - 1} groups",
            "remove `perf` from `rdt=` on the kernel's command line; the kernel then disables perf events and "
            "their limit",
        )
    else:
        yield ok(f"{counts} by package")


def _readers(host: Host) -> Iterator[Finding]:
    """Check for programs that read the files directly, such as Kepler in passive mode, and get wrong numbers."""
    inventory, settings = host.inventory, host.settings
    assert inventory is not None
    classes = {group.rdt_class for pod in inventory.pods for group in pod.groups} - {""}
    reasons = [
        (bool(classes), f"pods are in RDT classes ({', '.join(sorted(classes))})"),
        (settings.monitoring.get("share") is not None, "pods take turns (monitoring.share)"),
        (bool(inventory.waiting), f"{len(inventory.waiting)} pods wait for an RMID"),
        (bool(settings.group_prefix), f"groups have the prefix {settings.group_prefix} (groupPrefix)"),
    ]
    found = [text for applies, text in reasons if applies]
    if found:
        yield warning(
            f"programs that read core_energy from resctrl get incomplete values: {'; '.join(found)}", _READERS
        )


CHECKS: Final = {"energy": Check(energy, after="capacity")}
