"""A recording of a node's counters over time, and the report that is made of it."""
