"""The node's one resident process that samples: a loop with its parts on one clock."""
