"""Commands in messages that repeat the caller's `--config`; without it they would read or apply another file."""

import os
import re
import shlex
from typing import Final

import click

from resctrl_hooks.core.node.settings import DEFAULT_CONFIG
from resctrl_hooks.core.parts import parts

_INSTALL: Final = "install"
_COMMAND: Final = re.compile(r"\bresctrl-hook ([A-Za-z]+)\b")


def with_config(text: str, context: click.Context | None = None) -> str:
    """Return a message whose commands have this call's option `--config`, if it has one."""
    context = context or click.get_current_context(silent=True)
    config = context.find_root().params.get("config") if context is not None else None
    if not isinstance(config, str) or config == DEFAULT_CONFIG:
        return text

    entries = [pair for part in parts() for pair in part.commands.items()]
    without = {name for name, entry in entries if not entry.has_config}

    def extended(found: re.Match[str]) -> str:
        command = found[1]
        path = os.path.abspath(config) if command == _INSTALL else config  # units and hooks need a whole path
        return found[0] if command in without else f"resctrl-hook --config {shlex.quote(path)} {command}"

    return _COMMAND.sub(extended, text)
