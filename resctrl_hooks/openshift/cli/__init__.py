"""The command `machineconfig`."""
