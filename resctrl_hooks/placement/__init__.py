"""The house of CPUs, memory nodes, devices, interrupts and CPU classes."""
