"""The house of a pod's way: its first process enters its group, classes and limits, and everything is undone."""
