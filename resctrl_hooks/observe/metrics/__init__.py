"""Metrics of the node's counters and of this program, written and served by prometheus_client."""
