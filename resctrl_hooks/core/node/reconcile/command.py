"""The node half's ``reconcile`` command: an edited configuration, options, repetition, output, exit code."""

import _signal
import sys
import time

from ..context import Context
from ..durations import seconds_of
from ..errors import HookError, InputError, SettingsError
from ..fault_report import lacks_root
from ..fault_report import report as report_fault
from ..host.files import format_json, is_there, parse_json, read_file
from ..host.procfs import in_initial_user_namespace
from ..host.programs import ALL_FOLDERS, ProgramError, find_program, run
from ..log import ERROR, NOTICE, WARNING, Log
from ..names import canonical_pod_uid, default_key_validator
from ..part import load as load_function
from ..settings import is_unapplied, load
from ..version import note_version
from .budget import Budget
from .reconcile import reconcile
from .report import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_USAGE = "usage: reconcile [--dry-run] [--json] [--live FILE] [--claim] [--waiting-ok] [--watch DURATION]\n"
STAGE = "reconcile"
OK, WRONG, MISUSED = 0, 1, 2
INTERRUPTED = 130  # a shell's exit status for SIGINT
PEOPLES_COMMAND = "resctrl-hook"
_PATIENCE_TO_APPLY = 60.0
SHORTEST_PAUSE = 1.0  # without a pause, reconcile uses one CPU all the time
_LONGEST_PAUSE = 86400.0
_LIMIT = 16 << 20  # of a file of live keys


def apply_edited(config: str) -> None:
    """Call the people half to apply an edited configuration, if installed: the node half cannot parse YAML."""
    if not is_unapplied(config):
        return
    try:
        command = [find_program(PEOPLES_COMMAND, ALL_FOLDERS), "--config", config, "config", "apply", "--if-newer"]
    except ProgramError:
        return  # then `load` reports that it is newer
    try:
        code, output = run(command, _PATIENCE_TO_APPLY)
    except ProgramError as error:
        Log()(WARNING, f"cannot apply the edited {config}: {error}", stage=STAGE, reason=error.reason)
        return
    messages = "; ".join(output.splitlines())
    if code:
        Log()(WARNING, f"cannot apply the edited {config}: {messages}", stage=STAGE, reason=SettingsError.reason)
    elif messages:
        Log()(NOTICE, f"applied the edited {config}: {messages}", stage=STAGE)


def reconcile_command(config: str, arguments: "list[str]", apply: "Callable[[str], None]" = apply_edited) -> int:
    """Run the command; return 0 if everything is in order, 1 if a problem remains, 2 for wrong use or settings.

    ``apply`` applies an edited configuration before each pass.
    """
    flags = {"--dry-run": False, "--json": False, "--claim": False, "--waiting-ok": False}
    values = {"--live": "", "--watch": ""}
    rest = list(arguments)
    while rest:
        word, _, value = rest.pop(0).partition("=")
        if word in flags and not value:
            flags[word] = True
        elif word in values and (value or rest):
            values[word] = value or rest.pop(0)
        else:
            sys.stderr.write(_USAGE)
            return MISUSED
    pause = seconds_of(values["--watch"]) if values["--watch"] else SHORTEST_PAUSE
    if pause is None or not SHORTEST_PAUSE <= pause <= _LONGEST_PAUSE:
        sys.stderr.write(_USAGE)
        return MISUSED
    try:
        while True:
            if not flags["--dry-run"]:
                apply(config)
            code = once(config, values["--live"], flags)
            if not values["--watch"]:
                return code
            time.sleep(pause)
    except BrokenPipeError:  # the reader of the reports is gone
        return WRONG
    except KeyboardInterrupt:  # unfinished work is in the ledger, and the next pass continues it
        return INTERRUPTED


def once(config: str, live: str, flags: "dict[str, bool]") -> int:
    """Run one pass and print its report. Settings are read again each time.

    With ``--waiting-ok``, as in the timer's unit, waiting pods are not a failure: a node with more pods than RMIDs
    works as intended.

    Raises:
        BrokenPipeError: the reader of stdout is gone.
    """
    if not in_initial_user_namespace():
        Log()(ERROR, "reconcile: not in the host's user namespace; run it as root on the host")
        return WRONG
    started = time.monotonic()
    try:
        settings, problem = load(config)
        context = Context(settings)
        if problem:
            context.log(WARNING, problem, stage=STAGE)
        keys = read_live(live) if live else None
        options = Options(
            dry_run=flags["--dry-run"], live=keys, claim=flags["--claim"], budget=Budget(alarm=_signal.alarm)
        )
        report = reconcile(context, options)
    except SettingsError as error:
        Log()(ERROR, f"reconcile: {error}", stage=STAGE, reason=error.reason)
        return MISUSED
    except HookError as error:
        forbidden = lacks_root(error)
        what = f"{forbidden}; run it with sudo" if forbidden else str(error)
        Log()(ERROR, f"reconcile: {what}", stage=STAGE, reason=error.reason)
        return WRONG
    except Exception as error:  # noqa: BLE001  # a timer's command must not end in a traceback either
        report_fault(config, STAGE, error)
        return WRONG
    finally:
        _signal.alarm(0)
    if not options.dry_run:
        note_version(context.ledger.folder)
        if is_there(settings.node_features_path):
            _renew_features(context)
        context.ledger.count_call(STAGE, time.monotonic() - started, sorted(set(report.reasons)))
    written = _print(format_json(report.as_document()).decode() if flags["--json"] else report.as_text())
    well = report.well if flags["--waiting-ok"] else report.ok
    return OK if well and written else WRONG


def _renew_features(context: "Context") -> None:
    """Renew the file for node-feature-discovery; few nodes have it, and the modules for it."""
    try:
        renew = load_function("core.node.nfd.file:renew")
    except ModuleNotFoundError:
        what = f"cannot update {context.settings.node_features_path}: run `resctrl-hook install --nfd`"
        context.log(WARNING, what, stage=STAGE)
    else:
        renew(context)


_FORM = "write a JSON list of keys, or one key per line"


def read_live(path: str) -> "set[str]":
    """Read the keys in the file: a JSON list of strings, or one key per line, pod UIDs in any spelling.

    Raises:
        InputError: the file is unreadable, has another format, or contains an invalid key: keys that it omits are
            released.
    """
    try:
        data = read_file(path, _LIMIT, follow=True)
        listed = data.lstrip()[:1] == b"["
        keys = parse_json(data) if listed else [line.strip() for line in data.decode().split("\n") if line.strip()]
    except OSError as error:
        raise InputError.of_file(error, path, "read") from error
    except ValueError as error:
        raise InputError(f"invalid list of keys in {path}: {error}", hint=_FORM) from error
    for key in keys:
        if not isinstance(key, str) or not default_key_validator(key):
            raise InputError(f"invalid key {str(key)[:80]!r} in {path}", hint=_FORM)
    return {canonical_pod_uid(key) for key in keys}


def _print(text: str) -> bool:
    """Write to stdout unless it is closed; report a failure and return false."""
    try:
        # Flush at once: after the end of the process a failure could not be reported.
        print(text, end="", flush=True)  # noqa: T201
    except BrokenPipeError:
        raise
    except OSError as error:
        Log()(ERROR, f"reconcile: cannot write the report: {error.strerror}", stage=STAGE)
        return False
    return True
