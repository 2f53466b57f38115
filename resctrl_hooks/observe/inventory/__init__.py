"""Rates, usage and load from two snapshots, as rows for every output."""
