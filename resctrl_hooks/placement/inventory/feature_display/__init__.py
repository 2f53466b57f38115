"""Placement in `list -o wide`, `show` and `explain`."""
