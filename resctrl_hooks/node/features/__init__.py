"""What can be done for a container, one module or folder each."""
