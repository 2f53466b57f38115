"""containerd's NRI configuration: enabled by default in containerd 2, disabled in 1.7, where a drop-in enables it.

Sources: containerd, docs/NRI.md and docs/man/containerd-config.toml.5.md.
"""

import fnmatch
from typing import Any, Final

from resctrl_hooks.core.install.directories import read_toml
from resctrl_hooks.core.programs import output

from .nri import DROP_IN

CONFIG: Final = "/etc/containerd/config.toml"
PLUGIN: Final = "io.containerd.nri.v1.nri"
_ON_BY_DEFAULT: Final = 3
"""Configuration version of containerd 2, the first one with NRI enabled. Containerd 2 also reads older versions:
Debian's package has version 2."""
_ON_SINCE: Final = 2
_SECONDS: Final = 10.0
_TEXT: Final = f"""\
# Written by resctrl-hooks: turns NRI on.
version = 2
[plugins."{PLUGIN}"]
  disable = false
"""


def nri_drop_in(root: str = "") -> tuple[dict[str, bytes], list[str]]:
    """Return the files that enable NRI on the host below ``root``, and the remaining actions for the operator.

    Raises:
        OSError, RuntimeConfigError: containerd's configuration is unreadable.
    """
    config = read_config(root)
    if is_on(config, major_version(output("containerd", "--version", seconds=_SECONDS)) if not root else None):
        return {}, []
    notes = ["NRI is off in this containerd; to enable it, run `systemctl restart containerd`"]
    imports = config.get("imports")
    if not any(fnmatch.fnmatch(DROP_IN, str(pattern)) for pattern in (imports if isinstance(imports, list) else [])):
        line = 'imports = ["/etc/containerd/conf.d/*.toml"]'
        notes.insert(0, f"containerd does not read {DROP_IN}: add `{line}` to {CONFIG}")
    return {DROP_IN: _TEXT.encode()}, notes


def read_config(root: str = "") -> dict[str, Any]:
    """Return containerd's main configuration; empty without one.

    Raises:
        OSError, RuntimeConfigError: it is unreadable.
    """
    try:
        return read_toml(root + CONFIG)
    except FileNotFoundError:
        return {}


def major_version(version_line: str) -> int | None:
    """Return containerd's major version from the output of ``containerd --version``: name, package, version."""
    words = version_line.split()
    number = words[2].lstrip("v").partition(".")[0] if len(words) > 2 else ""  # noqa: PLR2004  # the third word
    return int(number) if number.isdecimal() else None


def is_on(config: dict[str, Any], major: int | None = None) -> bool:
    """Return whether a configuration enables NRI.

    The explicit setting decides, then containerd's own major version if known, then the configuration's version.
    Without a configuration, a current containerd is assumed.
    """
    plugins = config.get("plugins")
    section = plugins.get(PLUGIN) if isinstance(plugins, dict) else None
    if isinstance(section, dict) and "disable" in section:
        return section["disable"] is False
    if major is not None:
        return major >= _ON_SINCE
    version = config.get("version")
    return not config or not isinstance(version, int) or version >= _ON_BY_DEFAULT
