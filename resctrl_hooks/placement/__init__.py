"""The house of CPUs, memory nodes, devices, interrupts and CPU classes.

A container's request (`node/request`) becomes CPUs and memory nodes by a policy (`node/topology_aware`,
`node/balloons`), is recorded (`node/allocations`), written (`node/cpuset_writer`), and repaired by `reconcile`
(`node/reconcile`). The door to core is `node/feature`, a feature like any other.

In the order of reading: `node`, `config` (the section, and policy files of others), `inventory` and `cli`
(`topology`, `config balloons`), `doctor`.

Imports: `core` only.
"""
