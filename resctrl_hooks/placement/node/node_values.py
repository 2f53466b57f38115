"""Values of the node's files that change while containers run, and the restoration of the values before.

A file in the state directory has the previous value of each changed file. It is written before any change, so a kill at
any point leaves nothing unknown: reconcile completes or undoes the rest. Call these functions only under
`allocations.lock`.
"""

import errno as _errno
import posix

from ...core.node.errors import DeadlineError, LedgerError
from ...core.node.fault_report import as_hook_error
from ...core.node.host.files import (
    ASIDE,
    format_json,
    is_there,
    kernel_text,
    read_file,
    read_kernel_file,
    remove_file,
    write_file,
    write_kernel_file,
)
from ...core.node.host.state_file import parse
from ...core.node.log import ERROR, WARNING
from ...core.node.shapes import NotRequired, Text, TypedDict
from .kubelet import static_managers
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context
    from .usage import Usage

    Values = dict[str, "NodeValueRecord"]

_LIMIT = 4 << 20
OWN = ""
"""Instead of a value: the previous one, recorded before a change with which the kernel replaces it."""


class NodeValueRecord(TypedDict):
    """A value of the node: ``found`` before the first change (empty: no file), and the ``wanted`` one.

    ``now`` is the kernel's text after the write, empty before; ``refused`` the error's name, empty for none.
    """

    found: Text
    wanted: Text
    now: Text
    refused: Text


class NodeValuesRecord(TypedDict):
    """All changed values, by path below the folder of their kind, and the ``facts`` from which they follow."""

    boot: Text
    values: dict[Text, NodeValueRecord]
    facts: NotRequired[Text]


class NodeValues:
    """One kind of values, by path below ``base``. Subclasses decide which values are wanted."""

    title = ""  # for messages
    record = ""  # the file's name in the state directory

    def __init__(self, base: str, context: "Context") -> None:
        self.base = base
        self.context = context

    def facts(self, usage: "Usage") -> str:  # by default a hook compares the values
        """Return all on which the wanted values depend, as text: a hook does nothing while it is the recorded text."""
        return ""

    def wanted(self, usage: "Usage", values: "Values") -> "dict[str, str]":
        """Return the wanted values by path; ``values`` are the recorded ones.

        Raises:
            PlacementError: the settings are invalid.
        """
        raise NotImplementedError

    def current(self, key: str) -> str:
        """Return the kernel's value; empty if there is none."""
        return kernel_text(f"{self.base}/{key}")

    def write(self, key: str, value: str) -> str:
        """Write a value; return the error's name if the kernel refuses."""
        return write_value(self.base, key, value)

    def exists(self, key: str) -> bool:
        """Return whether the value's file exists."""
        return is_there(f"{self.base}/{key}")

    def learn(self, key: str, value: "NodeValueRecord", current: str) -> None:
        """Keep a value that another program has written since, to restore that one."""
        if value["now"] and current not in ("", value["found"], value["wanted"], value["now"]):
            value["found"] = current

    def is_restored(self, key: str, value: "NodeValueRecord", current: str) -> bool:  # as below
        """Return whether a value is the previous one again, or never had one."""
        return value["found"] in ("", current)

    def written(self, key: str, value: str) -> str:  # for values that change later
        """Return the kernel's value after a write."""
        return self.current(key)

    def unlike(self, key: str, asked: str, now: str) -> bool:  # most files show a value of the kernel's choice
        """Return whether the kernel's value after an accepted write is not the wanted one."""
        return False

    def problem(self, key: str, value: "NodeValueRecord") -> "tuple[str, ...]":
        """Return the facts by which a refused value is known, so that it is logged once."""
        return key.rpartition("/")[2], value["wanted"], value["refused"]

    def sentences(self, values: "Values") -> "list[str]":
        """Return sentences on refused values."""
        found: "dict[tuple[str, ...], list[str]]" = {}
        for key, value in values.items():
            if value["refused"]:
                found.setdefault(self.problem(key, value), []).append(key.rpartition("/")[0])
        more = {key: f" and {len(folders) - 1} more" if folders[1:] else "" for key, folders in found.items()}
        return [
            f"cannot set {key[0]} of {folders[0]}{more[key]} to {key[1]} ({key[2]})" for key, folders in found.items()
        ]

    def refused(self) -> "list[str]":
        """Return a sentence for each value that the kernel does not accept, or has no file for."""
        return self.sentences(self._read()["values"])

    def follow(self, usage: "Usage") -> None:
        """Apply the values for a hook. A failure is logged, and does not affect the container."""
        try:
            self.apply(usage)
        except DeadlineError:
            raise
        except Exception as caught:  # noqa: BLE001  # see fault_report.as_hook_error
            error = as_hook_error(caught)
            self.context.failures.append(error.reason)
            self.context.log(WARNING, f"cannot apply {self.title}: {error}", reason=error.reason)

    def apply(self, usage: "Usage | None", *, checked: bool = False) -> int:
        """Write all wanted values and restore the others; return the number of changed values.

        Without ``usage``, or with placement disabled or inactive, all are restored. ``checked`` compares with the
        kernel's values, not with the recorded ones, and tries refused values again.

        Raises:
            LedgerError: the record cannot be read or written; no value is changed then.
            PlacementError: whether the kubelet places containers is unknown; no value is changed then.
        """
        settings = self.context.settings
        if usage is not None and (not settings.sections["placement"]["enabled"] or static_managers(settings)):
            usage = None
        record = self._read()
        facts = self.facts(usage) if usage is not None else ""
        if facts and not checked and record.get("facts") == facts:
            return 0
        values, before = record["values"], format_json(record)
        known = {self.problem(key, value) for key, value in values.items()}
        wanted = self.wanted(usage, values) if usage is not None else {}
        todo = self._changes(values, wanted, checked=checked)
        if facts:
            record["facts"] = facts
        else:
            record.pop("facts", None)
        planned = format_json(record)
        if planned != before:
            self._save(record)
        unknown = {key: self._unreadable(key) for key in todo if not values[key]["found"]}
        refused = {key: "" for key in todo if key not in unknown}
        for _ in range(2):  # a limit above the other one, or a preference under the former governor, may be refused
            refused = {key: self.write(key, todo[key]) for key in refused}
            refused = {key: why for key, why in refused.items() if why}
        refused.update(unknown)
        for key in todo:
            if key in wanted:
                values[key]["now"] = now = self.written(key, todo[key])
                if key not in refused and self.unlike(key, todo[key], now):
                    refused[key] = f"the kernel kept {now or 'no value'}"
            if key in wanted or key in refused:
                values[key]["refused"] = refused.get(key, "") if wanted.get(key) != OWN else ""
            else:
                del values[key]
        if format_json(record) != planned:
            self._save(record)
        self._report(values, known)
        return len(todo) - len(refused)

    def _changes(self, values: "Values", wanted: "dict[str, str]", *, checked: bool) -> "dict[str, str]":
        """Return the values to write by path, and bring the records up to date before that."""
        todo: "dict[str, str]" = {}
        for key in [key for key in values if key not in wanted]:
            value, current = values[key], self.current(key)
            self.learn(key, value, current)
            if self.is_restored(key, value, current) or not self.exists(key):
                del values[key]
            else:
                todo[key] = value["wanted"] = value["found"]  # refused while the CPU is offline, and tried again
        for key, asked in wanted.items():
            stored = values.get(key)
            text = asked or (stored["found"] if stored is not None else "")
            if stored is not None and not checked and stored["wanted"] == text and (stored["now"] or stored["refused"]):
                continue
            current = self.current(key)
            text = text or current
            if not text:  # no file
                values.pop(key, None)
                continue
            if stored is None:
                values[key] = {"found": current, "wanted": text, "now": "", "refused": ""}
            else:
                stored["found"] = stored["found"] or current
                if stored["wanted"] != text:
                    stored["wanted"], stored["now"], stored["refused"] = text, "", ""
                elif current and stored["now"] == current and not stored["refused"]:
                    continue
                else:
                    self.learn(key, stored, current)
                    if asked == OWN:
                        text = stored["wanted"] = stored["found"]
            todo[key] = text
        return todo

    def _unreadable(self, key: str) -> str:
        """Return the name of the error with which a file cannot be read. Its value would be lost: it stays as it is."""
        try:
            read_kernel_file(f"{self.base}/{key}")
        except OSError as error:
            return _errno.errorcode.get(error.errno or 0, "")
        return "ENODATA"

    def _report(self, values: "Values", known: "set[tuple[str, ...]]") -> None:
        """Log each refused value once, and not again while it is recorded."""
        new = {key: one for key, one in values.items() if one["refused"] and self.problem(key, one) not in known}
        if new:
            self.context.failures.append(PlacementError.reason)
            for problem in self.sentences(new):
                self.context.log(WARNING, problem, reason=PlacementError.reason)

    def _path(self) -> str:
        return f"{self.context.ledger.folder}/{self.record}"

    def _read(self) -> "NodeValuesRecord":
        """Return the recorded values; those of an earlier boot are void.

        Raises:
            LedgerError: the record cannot be read. Without it, our values would pass for the previous ones.
        """
        boot = self.context.monitor.boot
        try:
            record = parse(read_file(self._path(), _LIMIT), NodeValuesRecord)
            if record["boot"] == boot:
                return record
        except FileNotFoundError:
            pass
        except ValueError as error:
            self._set_aside(error)
        except OSError as error:
            raise LedgerError.of_file(error, self._path()) from error
        return {"boot": boot, "values": {}}

    def _set_aside(self, error: ValueError) -> None:
        """Keep a damaged record under another name, and log once what it means; `doctor` may lack the permission."""
        path = self._path()
        try:
            posix.rename(path, path + ASIDE)
        except OSError:
            return
        what = f"the previous values of {self.title} are lost, so those that are changed now stay until a reboot"
        self.context.log(
            ERROR, f"{path} is damaged ({error}) and set aside as {path}{ASIDE}: {what}", stage="placement"
        )

    def _save(self, record: "NodeValuesRecord") -> None:
        path = self._path()
        try:
            if record["values"] or record.get("facts"):
                write_file(path, format_json(record))
            else:
                remove_file(path)
        except OSError as error:
            raise LedgerError.of_file(error, path) from error


def write_value(base: str, key: str, value: str) -> str:
    """Write a value to a kernel's file; return the error's name if the kernel refuses."""
    try:
        write_kernel_file(f"{base}/{key}", value)
    except OSError as error:
        return _errno.errorcode.get(error.errno or 0, "")
    return ""
