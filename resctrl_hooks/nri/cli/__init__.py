"""The command `nri`."""
