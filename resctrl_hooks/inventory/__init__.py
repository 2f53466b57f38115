"""What is known of this node, gathered into report objects: pods, containers, groups, counters, figures about us."""
