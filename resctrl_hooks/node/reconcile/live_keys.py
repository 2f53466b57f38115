"""Keys that a caller of reconcile knows to be alive, from its file: `reconcile --live FILE`."""

from ..errors import InputError
from ..host.files import parse_json, read_file
from ..names import canonical_pod_uid, default_key_validator

_LIMIT = 16 << 20


def read_live(path: str) -> "set[str]":
    """Read the keys in the file: a JSON list of strings, or one key per line, pod UIDs in any spelling.

    Raises:
        InputError: the file is unreadable, has another format, or contains an invalid key: keys that it omits are
            released.
    """
    try:
        data = read_file(path, _LIMIT, follow=True)
        listed = data.lstrip()[:1] == b"["
        keys = parse_json(data) if listed else [line.strip() for line in data.decode().split("\n") if line.strip()]
    except OSError as error:
        raise InputError.of_file(error, path, "read") from error
    except ValueError as error:
        raise InputError(f"{path} is neither a JSON list nor one key per line: {error}") from error
    for key in keys:
        if not isinstance(key, str) or not default_key_validator(key):
            raise InputError(f"{path} is neither a JSON list nor one key per line: invalid key {str(key)[:80]!r}")
    return {canonical_pod_uid(key) for key in keys}
