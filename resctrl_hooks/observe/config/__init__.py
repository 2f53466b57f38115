"""The configuration sections of history, slowdown and guard."""
