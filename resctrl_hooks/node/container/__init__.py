"""What a container is: its OCI state, its runtime, its pod."""
