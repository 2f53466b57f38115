"""Tests of `resctrl-hook metrics`."""
