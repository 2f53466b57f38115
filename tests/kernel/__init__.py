"""Tests on a real Linux resctrl with real container runtimes; they run in the guest of tests/vm (`nox -s kernel`)."""
