"""The house that reads what the node counts, and judges it."""
