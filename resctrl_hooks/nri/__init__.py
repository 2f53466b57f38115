"""The house of the NRI plugin: the same work on events of containerd or CRI-O in place of hooks.

From the wire up, in `node`: `protobuf` and `messages`, `multiplexer` and `ttrpc`, `service` (one connection),
`events` (the work for each event), which calls core's pipeline as a hook does.

In the order of reading: `node`, `config`, `install` (its service, containerd's setting), `doctor`, `metrics`, `cli`.

Imports: `core` only.
"""
