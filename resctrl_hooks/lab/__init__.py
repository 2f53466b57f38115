"""The house of a node without hardware: a simulated resctrl in FUSE, and a demo on it.

In the order of reading: `simulation` (the kernel's answers as a model and a filesystem), `demo` (a container's way,
step by step), `cli`. The guest with a real resctrl, conformance tests and benchmarks are beside it, in `tests`.

Imports: `core` only; no house imports this one.
"""
