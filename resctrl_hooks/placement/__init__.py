"""The house of CPUs, memory nodes, devices, interrupts and CPU classes.

A container's request (`node/request`) becomes CPUs and memory nodes by a policy (`node/topology_aware`,
`node/balloons`), is recorded (`node/allocations`), written (`node/cpuset_writer`), and repaired by `reconcile`
(`node/reconcile`). The door to core is `node/feature`, a feature like any other.

The rooms in the order of reading::

    node               the decision and its effects; its own screen names the files
    config             the section `placement`, and the conversion of other programs' policies
    inventory          the picture of `topology`; a container's place in `list` and `show`
    cli                `topology`, `config balloons`
    doctor, documents  the checks; the schemas of JSON documents

Imports: `core` only.
"""
