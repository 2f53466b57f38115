"""`resctrl-hook`, the command line that people type. Each command is a module, imported when it is called."""

import importlib
import importlib.util

import click

from resctrl_hooks import __version__
from resctrl_hooks.node.settings import DEFAULT_CONFIG

# Command, the module below this package that holds it as `command`, and its line in the overview: reading the modules
# for that would import everything that any of them needs.
_COMMANDS = {
    "createRuntime": ("hook", "Serve an OCI createRuntime hook: state on stdin."),
    "poststop": ("hook", "Serve an OCI poststop hook: state on stdin."),
    "hook": ("hook", "Serve whichever stage the state's status says."),
    "reconcile": ("reconcile", "Make groups and records agree with what runs."),
    "list": ("list", "List groups, pods and who waits for an RMID."),
    "show": ("show", "Show everything known about one pod."),
    "explain": ("explain", "Say what the hook would do for a state on stdin, and why."),
    "doctor": ("doctor", "Check this host and say how to mend what is wrong."),
    "install": ("install", "Put the hook on this host, or below --root."),
    "uninstall": ("uninstall", "Take the hook off this host."),
    "machineconfig": ("machineconfig", "Render OpenShift MachineConfigs."),
    "config": ("config", "Check, apply and show the configuration."),
    "metrics": ("metrics", "Write or serve OpenMetrics."),
    "top": ("top", "Watch cache, bandwidth and energy per pod."),
    "topology": ("topology", "Draw this node's CPUs, caches and memory."),
    "rdt": ("rdt", "Apply and show declared RDT classes."),
    "simulate": ("simulate", "Mount a simulated resctrl."),
    "demo": ("demo", "See a container land in its group, on any Linux machine."),
}


class _LazyGroup(click.Group):
    """A group that imports a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _) in _COMMANDS.items() if _exists(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS or not _exists(_COMMANDS[cmd_name][0]):
            return None
        module = importlib.import_module(f"{__name__}.{_COMMANDS[cmd_name][0]}")
        command = module.commands[cmd_name] if hasattr(module, "commands") else module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


def _exists(module: str) -> bool:
    return importlib.util.find_spec(f"{__name__}.{module}") is not None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", metavar="FILE", default=DEFAULT_CONFIG, show_default=True, help="The configuration to use.")
@click.version_option(__version__, prog_name="resctrl-hook")
@click.pass_context
def main(ctx: click.Context, config: str) -> None:
    """Put each pod into its own resctrl monitoring group before it forks, and clean up after it."""
    ctx.obj = config
