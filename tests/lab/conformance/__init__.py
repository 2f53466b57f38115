"""The behaviour of resctrl: the same tests for the kernel and for the simulation.

By default they run on a simulation of their own. With `RESCTRL_ROOT=/sys/fs/resctrl` in the environment they run on the
mounted resctrl, including those marked `kernel_only`.
"""
