"""Installation of the node half on a host: a plan as data, then writing or removing it in a safe order.

Runtimes may start, containers may come and go, and the installer may be killed between any two steps.
"""
