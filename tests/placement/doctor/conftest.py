"""Fixtures of this folder's tests that others have too."""

from hosts.patients import node, one_version, patient

__all__ = ("node", "one_version", "patient")
