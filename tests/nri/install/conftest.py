"""Fixtures of this folder's tests that others have too."""

from hosts.installations import compiled_once

__all__ = ("compiled_once",)
