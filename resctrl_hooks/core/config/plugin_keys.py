"""Keys of the NRI plugins' files in another case: Go's YAML accepts ``ResctrlPath``.

The plugins are resctrl-mon, memtierd, memory-qos, and memory-policy.
"""

from typing import Any, Final

PLUGIN_KEYS: Final = ("resctrlPath", "namespaces", "labelSelector", "classes", "unifiedAnnotations", "injectMpolset")
_KEYS: Final = {key.lower(): key for key in PLUGIN_KEYS}


def with_our_case(value: dict[Any, Any]) -> tuple[dict[Any, Any], dict[str, str]]:
    """Return a configuration with the plugins' keys in our spelling, and the changed keys by their original spelling.

    If both spellings occur, the other one stays and is an unknown key.
    """
    renamed = {
        key: _KEYS[key.lower()]
        for key in value
        if isinstance(key, str) and _KEYS.get(key.lower(), key) not in {key, *value}
    }
    return {renamed.get(key, key): item for key, item in value.items()}, renamed
