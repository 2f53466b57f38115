"""The man page, made from the command's own help."""

import re
from collections.abc import Iterable, Iterator

import click

from resctrl_hooks.core.cli import examples_of, main, tasks
from resctrl_hooks.core.install.paths import CODE, HOOK_NAME
from resctrl_hooks.core.install.units import COMPILE, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.names import RESCTRL_ROOT, STATE_DIR
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG, compiled_path

_NAME = "resctrl-hook"
_FILES = {
    DEFAULT_CONFIG: "The configuration, yours to edit.",
    compiled_path(DEFAULT_CONFIG): "The compiled configuration, written by config apply and read by the hooks.",
    f"hooks.d/{HOOK_NAME}": "The hook's registration, in the runtime's hook directory.",
    f"{CODE}/": "The installed code of the hooks and reconcile.",
    f"{STATE_DIR}/": "The records of pods and containers, for the current boot.",
    f"{RESCTRL_ROOT}/": "The mount point of resctrl, with the groups.",
    "/usr/share/doc/resctrl-hooks/docs/": "The pages that messages name, as docs/exec.md; installed by packages.",
    f"{MOUNT}, {COMPILE}": "Units: the resctrl mount, and bytecode for the host's Python.",
    f"{RECONCILE}, {TIMER}, {WAKE}": "Units: reconcile, every 30 seconds and when a pod waits.",
}
_OUTPUT = """
-o json and -o yaml print one object in the form of a Kubernetes list: apiVersion, kind, host, time, keys of the
command, and items. Within an apiVersion, keys can be added but are never renamed. A key without a known value is null.
An empty RDT class is the root class. A release contains the JSON Schemas. -o csv prints the items as a table, -o name
prints their names. Items of reconcile have these events:"""
RECONCILED = {
    "adopted": "threads of a running container moved into the pod's group",
    "released": "group and record of an ended pod were removed",
    "claimed": "a group without a record was adopted or removed (--claim)",
    "placed": "a running container that the hook had missed got CPUs and memory nodes",
    "applied": "a missing feature was applied to a container; the name of the feature follows",
    "handover": "the pod got another pod's RMID by the rules of sharing",
    "queued": "the pod waits by these rules",
    "waiting": "no RMID was free for the pod",
    "uncounted": "the pod has no bandwidth counter in the L3 domains of the message",
    "unmet": "a feature cannot be applied to the running container",
    "failed": "reconcile failed for the pod or container",
}
"""The events of `reconcile -o json`, with their meaning."""
_SEE_ALSO = ("runc(8)", "crun(1)", "podman(1)", "oci-hooks(5)", "crio.conf(5)", "systemd.timer(5)", "journalctl(1)")


def man_page() -> bytes:
    """Return the page's source: a section for each task, in the order of the overview."""
    context = click.Context(main, info_name=_NAME, **main.context_settings)
    lines = [
        f'.TH RESCTRL\\-HOOK 8 "" "{_NAME}" "System Administration"',
        ".SH NAME",
        f"{_roff(_NAME)} \\- {_roff(_first(main))}",
        ".SH SYNOPSIS",
        f".B {_roff(_NAME)}",
        "[\\-\\-config FILE] COMMAND [OPTION...] [ARGUMENT...]",
        ".SH OPTIONS",
        *_options(main, context),
        *(line for task, names in tasks().items() for line in _task(task, names, context)),
        *_programs(),
        ".SH FILES",
        *_terms(_FILES),
        ".SH EXIT STATUS",
        "0: done or deliberately skipped. 1: failed. 2: wrong use or invalid configuration.",
        "The hook stages return only 0 and 79; 79 rejects the container.",
        ".SH SEE ALSO",
        _roff(", ".join(_SEE_ALSO)),
    ]
    return ("\n".join(lines) + "\n").encode()


def _programs() -> Iterator[str]:
    """Yield the section on JSON: the envelope, and the events of reconcile."""
    yield from (".SH OUTPUT FOR PROGRAMS", ".PP", _roff(" ".join(_OUTPUT.split())))
    yield from _terms(RECONCILED)


def _task(task: str, names: Iterable[str], context: click.Context) -> Iterator[str]:
    yield f".SH {_roff(task.upper())}"
    for name in names:
        yield from _command(main, name, context)


def _command(group: click.Group, name: str, context: click.Context) -> Iterator[str]:
    command = group.get_command(context, name)
    assert command is not None
    own = click.Context(command, info_name=name, parent=context)
    path = own.command_path.removeprefix(f"{_NAME} ")
    yield f".SS {_roff(' '.join([path, *command.collect_usage_pieces(own)]))}"
    for paragraph in re.split(r"\n\s*\n", (command.help or "").replace("\b\n", "").strip()):
        yield ".PP"
        yield _roff(" ".join(paragraph.split()))
    yield from _options(command, own)
    yield from (".PP", "Examples:", ".nf", *(f"    {_roff(line)}" for line in examples_of(path.split(" [")[0])), ".fi")
    if isinstance(command, click.Group):
        for inner in command.list_commands(own):
            yield from _command(command, inner, own)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    # Not get_params(): click caches the help option with the names of its first user.
    records = [parameter.get_help_record(context) for parameter in command.params]
    for names, text in [*filter(None, records), (", ".join(context.help_option_names), "Show this message and exit.")]:
        yield ".TP"
        yield f".B {_roff(names)}"
        yield _roff(" ".join(text.split())) or "\\&"


def _terms(described: dict[str, str]) -> Iterator[str]:
    for term, text in described.items():
        yield from (".TP", f".B {_roff(term)}", _roff(text))


def _first(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split()).rstrip(".")


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text
