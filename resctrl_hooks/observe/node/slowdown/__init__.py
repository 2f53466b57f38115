"""Which pods are slowed, and why: evidence, baselines and causes. Resident or run by a user, never by a hook."""
