"""One read of all counters of the node, and the increase of each counter between two reads."""
