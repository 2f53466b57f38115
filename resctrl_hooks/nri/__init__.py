"""The house of the NRI plugin: the same work on events of containerd or CRI-O in place of hooks.

A runtime's event comes on a socket (`node/connection`), becomes core's workload (`node/workload`) in a worker process
(`node/workers`), and passes core's pipeline as in a hook (`node/events`). At a container's creation the plugin also
changes the specification (`node/creation`).

The rooms in the order of reading::

    node           the plugin; its own screen names the files
    config         the section `nri`, and keys of memory classes
    install        its service, and containerd's setting
    doctor         the checks
    metrics        its metrics, which observe serves
    cli            the command `nri`

Imports: `core` only.
"""
