"""`resctrl-hook demo`: a real container lands in its monitoring group and leaves it again, on any Linux machine.

`stage` is the small world in a temporary folder (resctrl, settings, ledger, log), `podman`, `bundle` and `process` are
what can be put on it, and `story` tells what happens. The tests with real runtimes use all but the
last as well.
"""
