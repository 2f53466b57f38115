"""Fixtures of this folder's tests that others have too."""

from hosts.patients import one_version, patient, staged

__all__ = ("one_version", "patient", "staged")
