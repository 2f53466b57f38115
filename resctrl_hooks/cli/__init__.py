"""The `resctrl-hook` command line for operators.

Each command is a module, which is imported when the command is called.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from resctrl_hooks import __version__
from resctrl_hooks.cli.errors import WORDS, OneLineGroup, no_such_command
from resctrl_hooks.node.settings import DEFAULT_CONFIG


class Entry(NamedTuple):
    """A command: the module of this package that defines it as `command`, its line in the overview, and examples.

    A subcommand's examples are those that contain its name.
    """

    module: str
    summary: str
    examples: tuple[str, ...]


# The table exists because reading the lines from the modules would import the dependencies of all commands. Help, man
# page and completion have its order.
TASKS: dict[str, dict[str, Entry]] = {
    "Look": {
        "list": Entry("list", "List pods and their groups, waiting pods first.", ("list", "list -n shop -o wide")),
        "show": Entry("show", "Show the details of a pod.", ("show shop/web-0", "show shop/web-0 --rates")),
        "top": Entry(
            "top",
            "Watch cache, bandwidth and energy per pod.",
            ("top", "top --once --by namespace", "top --at 'yesterday 14:00'"),
        ),
        "topology": Entry("topology", "Draw this node's CPUs, caches and memory.", ("topology",)),
        "record": Entry("record", "Record the counters of all pods to a file.", ("record --for 10m -o night.csv",)),
        "report": Entry(
            "report",
            "Draw a recording, or the history, as one HTML page.",
            ("report night.csv -o night.html", "report --since 'yesterday 13:00' -o night.html"),
        ),
        "history": Entry(
            "history",
            "Show and export the history of this node.",
            ("history status", "history export --since '2h ago' -o two-hours.parquet"),
        ),
        "metrics": Entry("metrics", "Write or serve OpenMetrics.", ("metrics", "metrics --listen")),
        "view": Entry("view", "Mount the totals of pods as a resctrl tree.", ("view /run/resctrl-view",)),
    },
    "Diagnose": {
        "explain": Entry(
            "explain",
            "Explain why a pod has no group, or what the hook would do.",
            ("explain shop/web-0", "runc state ID | resctrl-hook explain"),
        ),
        "diagnose": Entry(
            "diagnose",
            "Tell which pods are slowed, because of whom, and what helps.",
            ("diagnose", "diagnose shop/web-0 --for 2m", "diagnose shop/web-0 --experiment"),
        ),
        "doctor": Entry(
            "doctor",
            "Check this host and report how to fix each problem.",
            ("doctor", "doctor --fix", "doctor -o json"),
        ),
    },
    "Set up": {
        "install": Entry(
            "install",
            "Install the hook on this host, or below --root.",
            ("install --dry-run", "install --runtime crio"),
        ),
        "config": Entry(
            "config",
            "Check, apply and show the configuration.",
            (
                "--config my.yaml config check",
                "config apply --dry-run",
                "config apply",
                "config show",
                "config schema",
                "config balloons balloons.yaml",
            ),
        ),
        "machineconfig": Entry(
            "machineconfig", "Render OpenShift MachineConfigs.", ("machineconfig > 99-worker-resctrl-hooks.yaml",)
        ),
        "uninstall": Entry("uninstall", "Uninstall the hook from this host.", ("uninstall",)),
    },
    "Limit": {
        "rdt": Entry("rdt", "Apply and show declared RDT classes.", ("rdt show", "rdt apply --dry-run", "rdt apply")),
        "guard": Entry(
            "guard",
            "Limit the bandwidth of RDT classes while memory is full.",
            ("guard status", "guard run", "guard restore"),
        ),
    },
    "Try without hardware": {
        "demo": Entry("demo", "Demonstrate the hook with one container, on any Linux machine.", ("demo",)),
        "simulate": Entry("simulate", "Mount a simulated resctrl.", ("simulate /tmp/resctrl --rmids 16",)),
    },
    "Called by the system": {
        "createRuntime": Entry(
            "hook", "Serve an OCI createRuntime hook: state on stdin.", ("runc state ID | resctrl-hook createRuntime",)
        ),
        "poststop": Entry(
            "hook", "Serve an OCI poststop hook: state on stdin.", ("runc state ID | resctrl-hook poststop",)
        ),
        "hook": Entry(
            "hook", "Serve the stage that the state's status selects.", ("runc state ID | resctrl-hook hook",)
        ),
        "reconcile": Entry(
            "reconcile",
            "Update groups and records to match the running containers.",
            ("reconcile --dry-run", "reconcile"),
        ),
        "watch": Entry("watch", "Move processes that enter containers into their pods' groups.", ("watch",)),
        "events": Entry("events", "Send Kubernetes Events of slowed and of waiting pods.", ("events",)),
        "nri": Entry("nri", "Run as an NRI plugin of containerd or CRI-O.", ("nri --socket /var/run/nri/nri.sock",)),
    },
}
"""The commands by task."""

_COMMANDS = {name: entry for entries in TASKS.values() for name, entry in entries.items()}
_SHELL = "|"  # an example with a pipe is complete


def examples_of(path: str) -> list[str]:
    """Return the example lines of a command, such as ``rdt apply``."""
    name = path.split(maxsplit=1)[0]
    return [
        line if _SHELL in line else f"resctrl-hook {line}"
        for line in _COMMANDS[name].examples
        if f" {path} " in f" {line} "
    ]


def _give_examples(command: click.Command, path: str) -> None:
    """Add the table's examples to the help of a command and of its subcommands."""
    command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples_of(path))])
    for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
        _give_examples(inner, f"{path} {name}")


class _LazyGroup(OneLineGroup):
    """Group that imports a command's module when the command is called."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        self.arguments = tuple(sys.argv[1:] if args is None else args)  # `list` is a command of this package
        return super().main(args, *rest, **named)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in WORDS and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(no_such_command(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]  # `list` is a module of this package

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{_COMMANDS[cmd_name].module}")
        command = module.commands[cmd_name] if hasattr(module, "commands") else module.command
        assert isinstance(command, click.Command)
        _give_examples(command, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, _COMMANDS))
        for task, entries in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name.ljust(widest), entry.summary) for name, entry in entries.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", metavar="FILE", default=DEFAULT_CONFIG, show_default=True, help="The configuration.")
@click.version_option(__version__, prog_name="resctrl-hook")
@click.pass_context
def main(ctx: click.Context, config: str) -> None:
    """Put each pod into its own resctrl monitoring group before it forks, and clean up after it."""
    ctx.obj = config
