"""Tests of the reports about a node."""
