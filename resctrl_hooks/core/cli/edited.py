"""The settings of an edited file that is not applied yet; a module of its own, because it imports the models."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from resctrl_hooks.core.cli.errors import INVALID, FailedError, print_problems
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.config.applied import compile_file, is_newer
from resctrl_hooks.core.config.problems import InvalidConfigError
from resctrl_hooks.core.node.log import NOTICE
from resctrl_hooks.core.node.plain_log import to_stderr


@contextmanager
def as_edited(config: str, what: str) -> Iterator[str]:
    """Yield the file of settings: an edited configuration is compiled in a temporary folder, with a note.

    Raises:
        FailedError: the edited file is invalid, and the active settings would answer another question.
    """
    if not is_newer(config):
        yield config
        return
    try:
        compiled = compile_file(config)
    except InvalidConfigError as error:
        print_problems(error.problems)
        raise FailedError(f"{config} is invalid; correct it, then repeat the command", INVALID) from error
    to_stderr(NOTICE, with_config(f"{config} is not applied {what}"))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/config.json"
        with open(path, "wb") as file:
            file.write(compiled)
        yield path
