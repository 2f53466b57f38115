"""Fixtures of this folder's tests that others have too."""

from hosts.ledgers import ledger, open_umask

__all__ = ("ledger", "open_umask")
