"""The node half: the code inside every container start and stop, and of the reconcile timer.

It runs as ``python3 -I -S`` on Python 3.9 and later without other packages, and every container pays for its start-up
time. So it imports builtins and small C modules only (``posix`` instead of ``os``, ``_json`` instead of ``json``), and
all imports inside are relative, so that the folder runs from any path.
"""
