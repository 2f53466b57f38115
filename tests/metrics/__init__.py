"""Tests of what `resctrl-hook metrics` writes and serves."""
