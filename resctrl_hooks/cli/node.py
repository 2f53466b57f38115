"""The node's settings, as every command that reads the node opens them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from resctrl_hooks.config.applied import compile_file, is_newer
from resctrl_hooks.config.effective import effective_settings
from resctrl_hooks.config.problems import InvalidConfigError
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.log import NOTICE, WARNING, Log, to_stderr
from resctrl_hooks.node.settings import COMPILED_NAME


def open_node(config: str, *, unapplied: bool = False) -> Context:
    """Return the node with the active settings; reading it logs nothing.

    With ``unapplied``, print a remark if the configuration file was not applied, or was edited since.
    """
    return Context(effective_settings(config, unapplied=unapplied), Log({"target": "none"}))


@contextmanager
def as_it_would_be(config: str) -> Iterator[str]:
    """Yield a dry run's settings: an edited configuration, compiled in a temporary folder, as if it were active."""
    if not is_newer(config):
        yield config
        return
    try:
        compiled = compile_file(config)
    except InvalidConfigError as error:
        to_stderr(WARNING, f"cannot apply {config}: {error}; the previous configuration stays active")
        yield config
        return
    to_stderr(NOTICE, f"{config} has changed and would be applied first")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/{COMPILED_NAME}"
        with open(path, "wb") as file:
            file.write(compiled)
        yield path
