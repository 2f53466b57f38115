"""The node's one resident process that samples: a loop with its residents on one clock."""
