"""One reconcile pass over the node: make the records agree with the running containers."""
