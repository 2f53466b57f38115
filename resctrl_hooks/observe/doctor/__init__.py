"""`doctor`'s checks of energy counters and of the history."""
