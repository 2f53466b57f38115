"""The NRI plugin: the node half's work on events of containerd or CRI-O instead of OCI hooks.

It stays in memory, so it may import more than a hook, but it runs as ``python3 -I -S`` on Python 3.9 without other
packages, and imports nothing of the people half. From the wire up: `protobuf` and `messages` (encoding), `multiplexer`
and `ttrpc` (framing), `service` (one connection to a runtime), `events` (the work for each event).
"""
