"""`resctrl-hook demo`: a container that enters its monitoring group and leaves it, on any Linux machine.

`stage` is a small host in a temporary folder (resctrl, settings, ledger, log), `podman`, `bundle` and `process` are the
subjects on it, and `story` prints each step. Tests with real runtimes share everything but `story`.
"""
