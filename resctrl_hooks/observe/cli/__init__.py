"""The commands that show counters, rates, slowdown and history."""
