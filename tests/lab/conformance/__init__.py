"""The same tests for the simulation and, with `RESCTRL_ROOT=/sys/fs/resctrl` in the environment, for the kernel."""
