"""How resctrl behaves: the same tests for the kernel and for the simulation, so that neither drifts from the other.

Without more they run on a simulation of their own. With `RESCTRL_ROOT=/sys/fs/resctrl` in the environment they run on
what is mounted there, and those marked `kernel_only` run too.
"""
