"""Tests of what the counters say: on a processor that counts, against the ledger that it keeps itself."""
