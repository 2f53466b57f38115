"""The `resctrl-hook` command line for operators.

Each command is a module, which is imported when the command is called.
"""

import importlib
import io
import sys
from collections.abc import Sequence
from typing import Any

import click

from resctrl_hooks import __version__
from resctrl_hooks.cli.errors import drop_unwritten, in_one_line, no_such_command
from resctrl_hooks.node.settings import DEFAULT_CONFIG

# Command, the module of this package that defines it as `command`, and its line in the overview. The table exists
# because reading the lines from the modules would import the dependencies of all commands.
_COMMANDS = {
    "createRuntime": ("hook", "Serve an OCI createRuntime hook: state on stdin."),
    "poststop": ("hook", "Serve an OCI poststop hook: state on stdin."),
    "hook": ("hook", "Serve the stage that the state's status selects."),
    "reconcile": ("reconcile", "Update groups and records to match the running containers."),
    "watch": ("watch", "Move processes that enter containers into their pods' groups."),
    "nri": ("nri", "Run as an NRI plugin of containerd or CRI-O."),
    "list": ("list", "List pods and their groups, waiting pods first."),
    "show": ("show", "Show the details of a pod."),
    "explain": ("explain", "Explain what the hook would do for a state on stdin."),
    "doctor": ("doctor", "Check this host and report how to fix each problem."),
    "install": ("install", "Install the hook on this host, or below --root."),
    "uninstall": ("uninstall", "Uninstall the hook from this host."),
    "machineconfig": ("machineconfig", "Render OpenShift MachineConfigs."),
    "config": ("config", "Check, apply and show the configuration."),
    "metrics": ("metrics", "Write or serve OpenMetrics."),
    "view": ("tree_view", "Mount the totals of pods as a resctrl tree."),
    "top": ("top", "Watch cache, bandwidth and energy per pod."),
    "record": ("record", "Record the counters of all pods to a file."),
    "report": ("report", "Draw a recording as one HTML page."),
    "topology": ("topology", "Draw this node's CPUs, caches and memory."),
    "rdt": ("rdt", "Apply and show declared RDT classes."),
    "guard": ("guard", "Limit the bandwidth of RDT classes while memory is full."),
    "simulate": ("simulate", "Mount a simulated resctrl."),
    "demo": ("demo", "Demonstrate the hook with one container, on any Linux machine."),
}


class _LazyGroup(click.Group):
    """Group that imports a command's module when the command is called, and reports each failure in one line."""

    _arguments: Sequence[str] = ()

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        self._arguments = tuple(sys.argv[1:] if args is None else args)  # `list` is a command of this package
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # the terminal's encoding has no sort arrows; sort works without them
                stream.reconfigure(errors="replace")
        try:
            return super().main(args, *rest, **named)
        finally:
            drop_unwritten()

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with in_one_line():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with in_one_line(self._arguments):
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(no_such_command(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]  # `list` is a module of this package

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{_COMMANDS[cmd_name][0]}")
        command = module.commands[cmd_name] if hasattr(module, "commands") else module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", metavar="FILE", default=DEFAULT_CONFIG, show_default=True, help="The configuration.")
@click.version_option(__version__, prog_name="resctrl-hook")
@click.pass_context
def main(ctx: click.Context, config: str) -> None:
    """Put each pod into its own resctrl monitoring group before it forks, and clean up after it."""
    ctx.obj = config
