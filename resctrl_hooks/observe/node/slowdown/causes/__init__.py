"""Why a pod is slowed: a module for each shared resource and each limit of its own, listed in `table`. Pure."""
