"""What runs on nodes: one process reads all counters for guard, history and slowdown."""
