"""The node half's ``reconcile`` command: options, repetition, output, exit code."""

import sys
import time

from .errors import HookError, SettingsError
from .faults import lacks_root
from .faults import report as report_fault
from .files import format_json
from .log import ERROR, WARNING, Log
from .process import in_initial_user_namespace
from .reconcile import Options, read_live, reconcile
from .settings import load
from .steps import Node

_USAGE = "usage: reconcile [--dry-run] [--json] [--live FILE] [--claim] [--watch SECONDS]\n"
STAGE = "reconcile"
OK, WRONG, MISUSED = 0, 1, 2
_LONGEST_PAUSE = 86400.0


def reconcile_command(config: str, arguments: "list[str]") -> int:
    """Runs the command; returns 0 if nothing is wrong (any more), 1 if something is, 2 for wrong use or settings."""
    flags = {"--dry-run": False, "--json": False, "--claim": False}
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
    pause = values["--watch"] or "0"
    # Other scripts' digits are digits too, which float() need not take.
    if not pause.isascii() or not pause.replace(".", "", 1).isdecimal() or float(pause) > _LONGEST_PAUSE:
        sys.stderr.write(_USAGE)
        return MISUSED
    while True:
        code = once(config, values["--live"], dry_run=flags["--dry-run"], claim=flags["--claim"], json=flags["--json"])
        if not values["--watch"]:
            return code
        print(end="", flush=True)  # noqa: T201
        time.sleep(float(pause))


def once(config: str, live: str, *, dry_run: bool, claim: bool, json: bool) -> int:
    """One reconcile, with its report on stdout. The settings are read anew each time."""
    if not in_initial_user_namespace():
        Log()(ERROR, "reconcile: not in the host's user namespace; run it as root on the host")
        return WRONG
    started = time.monotonic()
    try:
        settings, problem = load(config)
        node = Node(settings)
        if problem:
            node.log(WARNING, problem, stage=STAGE)
        options = Options(dry_run=dry_run, live=read_live(live) if live else None, claim=claim)
        report = reconcile(node, options)
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
    if not dry_run:
        node.ledger.tally(STAGE, time.monotonic() - started, sorted(set(report.reasons)))
    # print() does without a stdout that somebody has closed.
    print(format_json(report.as_dict()).decode() if json else report.as_text(), end="")  # noqa: T201
    return OK if report.ok else WRONG
