"""Keys of nri-resctrl-mon's and nri-memtierd's files in another case: Go's YAML takes ``ResctrlPath`` as it is."""

from typing import Any, Final

_KEYS: Final = {key.lower(): key for key in ("resctrlPath", "namespaces", "labelSelector", "classes")}


def with_our_case(value: dict[Any, Any]) -> tuple[dict[Any, Any], dict[str, str]]:
    """Return a configuration with the plugins' keys spelt as ours, and by their spelling in the file those that were.

    Where both spellings are there, the other one stays, as the unknown key that it is.
    """
    renamed = {
        key: _KEYS[key.lower()]
        for key in value
        if isinstance(key, str) and _KEYS.get(key.lower(), key) not in {key, *value}
    }
    return {renamed.get(key, key): item for key, item in value.items()}, renamed
