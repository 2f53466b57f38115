"""The library: mon_groups, counters and their totals."""
