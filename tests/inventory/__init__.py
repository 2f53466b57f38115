"""Tests of what is gathered about a node."""
