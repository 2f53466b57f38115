"""Kubernetes objects as readable YAML: multi-line strings as blocks, modes in octal."""

from typing import Any

import yaml


class Mode(int):
    """A file's mode."""


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper with these two formats."""

    def ignore_aliases(self, data: Any) -> bool:
        """Disable aliases."""
        del data
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _mode(dumper: _Dumper, value: Mode) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:int", f"{value:#o}".replace("o", ""))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Mode, _mode)


def to_yaml(value: Any, *, head: str = "") -> str:
    """Return the YAML text, below comment lines."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head.splitlines())
    return comment + yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=10**9)
