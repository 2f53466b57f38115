"""The NRI plugin: the node half's work, done on events of containerd or CRI-O instead of OCI hooks.

A third part beside the node half and the people half. It stays in memory, so it may import more than a hook, but like
the node half it runs as ``python3 -I -S`` on Python 3.9 with nothing installed, and imports nothing of the people half.
From the wire up: `protobuf` and `messages` (what the bytes mean), `multiplexer` and `ttrpc` (whose bytes they are),
`service` (one connection to a runtime), `events` (what is done on each event).
"""
