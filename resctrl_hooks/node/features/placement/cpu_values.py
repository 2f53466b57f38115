"""Writing of CPU classes to cpufreq, and restoration of the values that it had before.

A file in the state directory has the previous value of each changed file. It is written before any change, so a kill at
any point leaves nothing unknown: reconcile completes or undoes the rest. Files of CPUs that share a cpufreq policy are
one file. Call these functions only under `allocations.lock`.
"""

import errno as _errno
import posix

from ... import shapes
from ...errors import DeadlineError, LedgerError
from ...fault_report import as_hook_error
from ...feature_table import FEATURES
from ...host.cpulist import members
from ...host.files import (
    format_json,
    is_there,
    kernel_text,
    read_file,
    read_kernel_file,
    remove_file,
    write_file,
)
from ...log import WARNING
from .cpu_classes import FILES, SYMBOLS, assign, values_of
from .kubelet import static_managers
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context
    from ...records import CpuValueRecord, CpuValuesRecord
    from .usage import Usage

_LIMIT = 4 << 20
_FREQUENCY = "_freq"  # the end of the names of files with a limit
_GOVERNOR, _PREFERENCE = FILES["freqGovernor"], FILES["energyPerformancePreference"]
_OWN = ""  # instead of a value: the previous one, recorded before a change with which the kernel replaces it


def follow_classes(usage: "Usage", context: "Context") -> None:
    """Apply the classes for a hook. A failure is logged, and does not affect the container."""
    try:
        apply_classes(usage, context)
    except DeadlineError:
        raise
    except Exception as caught:  # noqa: BLE001  # see fault_report.as_hook_error
        error = as_hook_error(caught)
        context.failures.append(error.reason)
        context.log(WARNING, f"cannot apply CPU classes: {error}", reason=error.reason)


def apply_classes(usage: "Usage | None", context: "Context", *, checked: bool = False) -> int:
    """Write the values of all classes and restore those of other CPUs; return the number of changed values.

    Without ``usage``, or with placement disabled or inactive, all are restored. ``checked`` compares with the kernel's
    values, not with the recorded ones, and tries refused values again.

    Raises:
        LedgerError: the record cannot be written; no value is changed then.
    """
    base = f"{context.settings.sys_path}/devices/system/cpu"
    values = _read(context)
    settings = context.settings
    active = settings.placement["enabled"] and not static_managers(settings)
    wanted = _wanted(usage, base, context) if usage is not None and active else {}
    known = {_problem(key, value) for key, value in values.items()}
    before = format_json(values)
    todo = _changes(values, wanted, base, checked=checked)
    planned = format_json(values)
    if planned != before:
        _save(values, context)
    unknown = {key: _unreadable(f"{base}/{key}") for key in todo if not values[key]["found"]}
    refused = {key: "" for key in todo if key not in unknown}
    for _ in range(2):  # the kernel may refuse a limit above the other one, or a preference under the former governor
        refused = {key: _write(base, key, todo[key]) for key in refused}
        refused = {key: why for key, why in refused.items() if why}
    refused.update(unknown)
    for key in todo:
        if key in wanted:
            values[key]["now"] = kernel_text(f"{base}/{key}")
        if key in wanted or key in refused:
            values[key]["refused"] = refused.get(key, "") if wanted.get(key) != _OWN else ""
        else:
            del values[key]
    if format_json(values) != planned:
        _save(values, context)
    _report(values, known, context)
    return len(todo) - len(refused)


def refused_values(context: "Context") -> "list[str]":
    """Return a sentence for each value that the kernel does not accept, or has no file for."""
    return _sentences(_read(context))


def _sentences(values: "dict[str, CpuValueRecord]") -> "list[str]":
    found: "dict[tuple[str, str, str], list[str]]" = {}
    for key, value in values.items():
        if value["refused"]:
            found.setdefault(_problem(key, value), []).append(key.rpartition("/")[0])
    return [
        f"cannot set {file} of {folders[0]}{f' and {len(folders) - 1} more' if folders[1:] else ''} to {value} ({why})"
        for (file, value, why), folders in found.items()
    ]


def restore_all(context: "Context") -> None:
    """Restore all values before the state directory is removed.

    Raises:
        PlacementError: the kernel refuses one of them.
    """
    apply_classes(None, context, checked=True)
    problems = refused_values(context)
    if problems:
        raise PlacementError("; ".join(problems))


def _wanted(usage: "Usage", base: str, context: "Context") -> "dict[str, str]":
    """Return the wanted values by file; a class of a missing definition has none.

    With a governor, the kernel may show and use another energy preference (intel_pstate: ``performance``). So each
    class with a governor has a preference, its own or the CPU's, which is written and recorded before the governor.
    """
    options = context.settings.placement
    values = values_of(options)
    folders: "dict[str, str]" = {}
    for name, cpus in assign(usage, options):
        for cpu in members(cpus):
            try:
                policy = posix.readlink(f"{base}/cpu{cpu}/cpufreq").rpartition("/")[2]
                folders.setdefault(f"cpufreq/{policy}", name)
            except OSError:
                folders.setdefault(f"cpu{cpu}/cpufreq", name)  # no cpufreq, which the write reports
    for name, own in values.items():
        if _GOVERNOR in own and _PREFERENCE not in own:
            values[name] = {_PREFERENCE: _OWN, **own}
    return {
        f"{folder}/{file}": value for folder, name in folders.items() for file, value in values.get(name, {}).items()
    }


def _changes(
    values: "dict[str, CpuValueRecord]", wanted: "dict[str, str]", base: str, *, checked: bool
) -> "dict[str, str]":
    """Return the values to write by file, and bring the records up to date before that."""
    todo: "dict[str, str]" = {}
    for key in [key for key in values if key not in wanted]:
        value, current = values[key], kernel_text(f"{base}/{key}")
        _learn(key, value, current)
        if value["found"] in ("", current) or not is_there(f"{base}/{key}"):
            del values[key]
        else:
            todo[key] = value["wanted"] = value["found"]  # refused while the CPU is offline, and tried again
    for key, value_of_class in wanted.items():
        kept = values.get(key)
        text = value_of_class or (kept["found"] if kept is not None else "")
        if kept is not None and not checked and kept["wanted"] == text and (kept["now"] or kept["refused"]):
            continue
        current = kernel_text(f"{base}/{key}")
        text = text or current
        if not text:  # no file
            values.pop(key, None)
            continue
        if kept is None:
            values[key] = {"found": current, "wanted": text, "now": "", "refused": ""}
        else:
            kept["found"] = kept["found"] or current
            if kept["wanted"] != text:
                kept["wanted"], kept["now"], kept["refused"] = text, "", ""
            elif current and kept["now"] == current and not kept["refused"]:
                continue
            else:
                _learn(key, kept, current)
                if value_of_class == _OWN:
                    text = kept["wanted"] = kept["found"]
        todo[key] = text
    return todo


def _learn(key: str, value: "CpuValueRecord", current: str) -> None:
    """Keep a value that another program has written since, to restore that one.

    The kernel itself changes what it shows for a limit, by temperature.
    """
    ours = ("", value["found"], value["wanted"], value["now"])
    if value["now"] and current not in ours and not key.endswith(_FREQUENCY):
        value["found"] = current


def _unreadable(path: str) -> str:
    """Return the name of the error with which a file cannot be read. Its value would be lost, so it is not changed."""
    try:
        read_kernel_file(path)
    except OSError as error:
        return _errno.errorcode.get(error.errno or 0, "")
    return "ENODATA"


def _write(base: str, key: str, value: str) -> str:
    """Write a value; return the error's name if the kernel refuses."""
    folder, _, name = key.rpartition("/")
    if name.endswith(_FREQUENCY) and value in SYMBOLS:
        value = kernel_text(f"{base}/{folder}/{SYMBOLS[value]}")
        if not value:
            return "ENOENT"
    try:
        fd = posix.open(f"{base}/{key}", posix.O_WRONLY | posix.O_TRUNC)
        try:
            posix.write(fd, value.encode())
        finally:
            posix.close(fd)
    except OSError as error:
        return _errno.errorcode.get(error.errno or 0, "")
    return ""


def _problem(key: str, value: "CpuValueRecord") -> "tuple[str, str, str]":
    return key.rpartition("/")[2], value["wanted"], value["refused"]


def _report(values: "dict[str, CpuValueRecord]", known: "set[tuple[str, str, str]]", context: "Context") -> None:
    """Log each refused value once, and not again while it is recorded."""
    new = {key: value for key, value in values.items() if value["refused"] and _problem(key, value) not in known}
    if new:
        context.failures.append(PlacementError.reason)
        for problem in _sentences(new):
            context.log(WARNING, problem, reason=PlacementError.reason)


def _path(context: "Context") -> str:
    return f"{context.ledger.folder}/{FEATURES['placement'].leaves}"


def _read(context: "Context") -> "dict[str, CpuValueRecord]":
    """Return the recorded values by file below the folder of CPUs; those of an earlier boot are void."""
    try:
        record: CpuValuesRecord = shapes.parse(read_file(_path(context), _LIMIT), shapes.CPU_VALUES)
        return record["values"] if record["boot"] == context.monitor.boot else {}
    except (OSError, ValueError):
        return {}


def _save(values: "dict[str, CpuValueRecord]", context: "Context") -> None:
    path = _path(context)
    record: "CpuValuesRecord" = {"boot": context.monitor.boot, "values": values}
    try:
        if values:
            write_file(path, format_json(record))
        else:
            remove_file(path)
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
