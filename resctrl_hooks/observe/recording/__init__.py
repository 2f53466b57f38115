"""Recordings of a node's counters, and the reports drawn from them."""
