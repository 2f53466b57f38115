"""The log of a program's monitor: a callable, or a logger of the standard library's `logging`."""

from collections.abc import Callable
from typing import Any

from resctrl_hooks.core.node.log import ERROR, INFO, NOTICE, WARNING

_LEVELS = {ERROR: 40, WARNING: 30, NOTICE: 20, INFO: 20}  # `logging` defines these numbers
_DEBUG = 10


def log_of(log: Any) -> Callable[..., None]:
    """Return the log callable for a callable or a `logging.Logger`.

    A record of the logger has each field as an attribute ``resctrl_FIELD``.

    Raises:
        TypeError: it is neither.
    """
    if callable(log):
        found: Callable[..., None] = log
        return found
    if not callable(getattr(log, "log", None)) or not callable(getattr(log, "isEnabledFor", None)):
        raise TypeError(f"log must be a callable or a logging.Logger, not {type(log).__name__}")

    def to_logger(priority: int, message: str, **fields: str | int) -> None:
        extra = {f"resctrl_{name}": value for name, value in fields.items()}
        log.log(_LEVELS.get(priority, _DEBUG), message, extra=extra)

    return to_logger
