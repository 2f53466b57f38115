"""The history of this node's counters: the rows of a sample, and one bounded file of samples."""
