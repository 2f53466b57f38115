"""The library for programs: `Monitor` and `LockedKey` of the node half, with checked arguments and some more methods.

Hooks pass arguments that they have checked themselves; a program may pass anything. So each public method here enters
through `entry`.
"""
