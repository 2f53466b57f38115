"""The library: monitoring groups, counters and their totals."""
