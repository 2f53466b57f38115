"""The node half: what runs inside every container start and stop, and as the reconcile timer.

It runs as ``python3 -I -S`` on Python 3.9 and later with nothing installed, and its start-up time is paid by every
container, so it imports builtins and tiny C modules only: ``posix`` in the place of ``os`` (whose import alone costs
15 % of an interpreter's start), ``_json`` for ``json``, ``_signal`` for ``signal``. All imports inside are relative:
the folder can be copied anywhere, under any name, and run from a read-only place too.
"""
