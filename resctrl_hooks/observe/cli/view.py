"""`resctrl-hook view`: a read-only tree in resctrl's layout with pods' totals, for programs that read such files."""

import click

from resctrl_hooks.core.cli.errors import remarks
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.fuse import MountError, check_fuse, prepare, serve
from resctrl_hooks.observe.view.contents import Contents


@click.command()
@click.argument("mountpoint", metavar="DIR", type=click.Path(file_okay=False))
@click.option(
    "--pods",
    "pods_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Name static pods by the UIDs of their mirror pods, from a pod list (kubectl get pods -A -o json).",
)
@click.pass_obj
def command(config: str, mountpoint: str, pods_file: str | None) -> None:
    """Mount a read-only resctrl tree at DIR, for programs such as Kepler that read resctrl files.

    mon_groups has one directory per pod, whatever its RDT class. Its counters are the pod's totals since its start.
    The counters of the root are those of the whole node and never decrease. Stop it with Ctrl-C, SIGTERM or umount.
    """
    contents = Contents(open_node(config), pods_file or "")
    contents.read()  # fail before the mount, not inside it
    try:
        path = prepare(mountpoint)
        check_fuse()
        from resctrl_hooks.observe.view.filesystem import Filesystem  # noqa: PLC0415 - imports mfusepy, an extra

        remark = remarks()
        filesystem = Filesystem(contents.read, lambda line: remark(f"{path}: {line}"))
        serve(path, filesystem, ro=True, subtype="resctrl-view", use_ino=False, entry_timeout=0, attr_timeout=0)
    except MountError as error:
        raise click.ClickException(str(error)) from None
