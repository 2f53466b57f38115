"""Performance counters of pods: reading them, and the choice of the pods that have them."""
