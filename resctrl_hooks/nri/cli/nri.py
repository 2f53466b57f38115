"""`resctrl-hook nri`: the node half's NRI plugin, which can also read YAML here."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from resctrl_hooks.core.cli.node import find_settings
from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.nri.node.command import DEFAULT_INDEX, DEFAULT_NAME, DEFAULT_SOCKET, nri_command


@click.command()
@click.option("--socket", metavar="PATH", default=DEFAULT_SOCKET, show_default=True, help="The runtime's NRI socket.")
@click.option("-name", "--name", default=DEFAULT_NAME, show_default=True, help="The plugin's name.")
@click.option(
    "-idx", "--idx", "index", default=DEFAULT_INDEX, show_default=True, help="The plugin's index, two digits."
)
@click.option(
    "-config", "own", metavar="FILE", help="Same as --config before the command; the option of the NRI plugins."
)
@click.option("-v", "verbose", is_flag=True, help="Log more.")
@click.option("-cgroups-dir", "--cgroups-dir", metavar="DIR", help="Mount point of cgroup v2, as in nri-memtierd.")
@click.option("-run-dir", "--run-dir", metavar="DIR", help="Directory for memtierd's files, as in nri-memtierd.")
@click.pass_obj
def command(
    config: str,
    *,
    socket: str,
    name: str,
    index: str,
    own: str | None,
    verbose: bool,
    cgroups_dir: str | None,
    run_dir: str | None,
) -> None:
    """Run as an NRI plugin of containerd or CRI-O, until SIGTERM.

    The plugin does the work of the hooks for each container, and removes a pod's group as soon as the pod ends.
    `resctrl-hook install --runtime containerd` installs a unit that runs it.
    """
    arguments = ["--socket", socket, "-name", name, "-idx", index, *(["-v"] if verbose else [])]
    arguments += ["-cgroups-dir", cgroups_dir] if cgroups_dir else []
    arguments += ["-run-dir", run_dir] if run_dir else []
    sys.exit(nri_command(own or config, arguments, find_settings, _compiled))


def _compiled(text: str) -> dict[str, Any]:
    """Return the settings of a YAML configuration that the runtime sent.

    Raises:
        SettingsError: it is not valid.
    """
    from resctrl_hooks.core.config.check import check_file  # noqa: PLC0415  # pydantic, for those who send one

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(text, encoding="utf-8")
        checked = check_file(str(path))
    if checked.errors:
        raise SettingsError("; ".join(map(str, checked.errors[:3])))
    return checked.valid().given()
