"""A simulated node with three pods that slow each other: `resctrl-hook simulate --scene`, and the demo's second part.

`scenes` is the table of what the pods do, `node` the node in a folder, `place` that folder, and `hardware` its sysfs.
The simulation shares its CPUs, cache and memory (`lab.simulation.work`); all other code sees files as on any node.
"""
