"""Per-pod resctrl monitoring groups from OCI hooks, and the library that they are made of."""

__version__ = "0.1.0"
