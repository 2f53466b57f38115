"""Tests on a real Linux resctrl with real container runtimes; they run in the guest (`nox -s kernel`)."""
