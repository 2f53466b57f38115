"""The NRI plugin: the node half's work on events of containerd or CRI-O instead of OCI hooks.

It stays in memory, so it may import more than a hook, but it runs as ``python3 -I -S`` on Python 3.9 without other
packages, and imports nothing of the people half.

From the wire up::

    protobuf, messages           encoding
    multiplexer, ttrpc           framing
    connection                   one socket, one reader
    service                      one connection: Configure, Synchronize, then events
    command, resident, gap       the command; the plugin between connections; reconcile while no events arrive
    plugin                       settings, and the log of results
    workers, worker              the processes that serve events
    event, workload, events      an event becomes core's workload and core's work
    creation, requested          CreateContainer: the desired changes by the settings,
    adjustments, memory_policy   and the changes of the specification
    status                       the status file, for `doctor` and the metrics

Time: `plugin` sets the worker's deadline (0.7 of the runtime's timeout) and its end (0.85), `workers` kills it then,
and `service` answers in its place, by the refusal that `plugin` returns.
"""
