"""Placement: CPUs and memory nodes of containers by pluggable policies."""
