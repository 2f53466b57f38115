"""Reports about this node: pods, containers, groups, counters, and the state of this program."""
