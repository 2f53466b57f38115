"""Selection of a container's classes, and their values."""
