"""Contents of files in an Ignition configuration."""

import base64
import gzip

SOURCE = "data:;base64,"


def unpacked(value: dict[str, str]) -> bytes:
    """Return the content of a file of an Ignition configuration.

    Raises:
        ValueError: the encoding is another one.
    """
    head, found, packed = value.get("source", "").partition(SOURCE)
    if head or not found or value.get("compression", "gzip") != "gzip":
        raise ValueError("not inline content, plain or gzip-compressed")
    try:
        data = base64.b64decode(packed, validate=True)
        return gzip.decompress(data) if "compression" in value else data
    except (OSError, EOFError) as error:
        raise ValueError(str(error)) from error
