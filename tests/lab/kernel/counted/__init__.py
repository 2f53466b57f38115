"""Tests of counter values, on an emulated processor that counts and keeps its own ledger."""
