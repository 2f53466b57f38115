"""`kubectl resctrl`: all nodes of a cluster, from the metrics that its pods already serve."""
