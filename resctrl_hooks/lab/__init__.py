"""The house of a node without hardware: a simulated resctrl in FUSE, and a demo on it.

The kernel's requests to the mount become calls of a tree of paths, and these the model's commands: ``filesystem``,
``tree``, ``model`` in `simulation`. The demo puts a small host (``stage`` in `demo`) on such a mount and starts a
container with the hook.

The rooms in the order of reading: `simulation`, `demo`, `scene` (a simulated node whose pods slow each other), `cli`
(the commands `simulate` and `demo`). The tests of this
house are also those on a real kernel: ``tests/lab`` has the guest (``vm``), its tests (``kernel``), the comparison of
simulation and kernel (``conformance``), and the benchmarks (``bench``).

Imports: `core` only; no house imports this one.
"""
