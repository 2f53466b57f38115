"""The exec watcher: moves processes that enter a running container into its pod's group as they start."""
