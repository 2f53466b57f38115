"""Identity of a container: its OCI state, its runtime, its pod."""
