"""Limits of running pods for a time: what is requested, its permission, and those that are active.

The values are temporary ones (`observe.node.temporary`), so they come back at their end, also after a crash.
"""
