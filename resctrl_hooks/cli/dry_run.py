"""Settings of a dry run; a module of its own, because it imports the configuration's models."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from resctrl_hooks.config.applied import compile_file, is_newer
from resctrl_hooks.config.problems import InvalidConfigError
from resctrl_hooks.node.log import NOTICE, WARNING, to_stderr
from resctrl_hooks.node.settings import COMPILED_NAME


@contextmanager
def as_it_would_be(config: str, *, dry_run: bool) -> Iterator[str]:
    """Yield the file of settings; in a dry run an edited configuration is compiled in a temporary folder for it."""
    if not dry_run or not is_newer(config):
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
