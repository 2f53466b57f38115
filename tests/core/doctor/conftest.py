"""Fixtures of this folder's tests that others have too."""

from hosts.patients import node, one_version, patient, staged

__all__ = ("node", "one_version", "patient", "staged")
