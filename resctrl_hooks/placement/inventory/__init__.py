"""The machine's topology and its allocations for commands."""
