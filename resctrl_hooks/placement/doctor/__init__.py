"""`doctor`'s checks of exclusive CPUs, and of other owners of cpusets."""
