"""Which configuration `install` and `uninstall` mean: the one that hooks go by already, unless another is named."""

import click
from click.core import ParameterSource

from resctrl_hooks.install.manifest import Manifest


def installed_config(context: click.Context, record: Manifest | None) -> str:
    """The configuration that is named with --config, else that of the installation, else the default."""
    named = context.find_root().get_parameter_source("config") is not ParameterSource.DEFAULT
    config: str = context.obj
    return config if named or record is None else record.config or config
