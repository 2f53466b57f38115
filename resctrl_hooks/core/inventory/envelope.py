"""The envelope of every document for programs: the shape of a Kubernetes list, with host and time."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from resctrl_hooks.core.node.reconcile.report import API_VERSION


def envelope(kind: str, items: Iterable[Any], **more: Any) -> dict[str, Any]:
    """Return a document as plain values.

    Args:
        kind: the document's kind.
        items: models or plain values.
        more: further keys, which may also replace ``host`` and ``time``, such as for the past.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "host": os.uname().nodename,
        "time": written(datetime.now(UTC)),
        **{name: _plain(value) for name, value in more.items()},
        "items": [_plain(item) for item in items],
    }


def written(when: datetime) -> str:
    """Return a time of UTC as documents have it."""
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    return [_plain(one) for one in value] if isinstance(value, list) else value
