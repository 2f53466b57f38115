"""Evidence of one window: the node's counters, and the use of each pod that is their difference.

`reader` reads a node at one moment and `window` subtracts two readings. `cpu` and `perf` are rooms of their own.
"""
