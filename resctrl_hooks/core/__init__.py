"""The house of a pod's way: its first process enters its group and classes before it forks, and all is undone.

A runtime's state comes on stdin (`node/hook`), becomes a workload (`node/container`), a plan of steps
(`node/features`), and records and effects (`node/ledger`, `node/resctrl`, `node/sharing`). Poststop and `reconcile`
undo them (`node/lifecycle`, `node/reconcile`). All else serves the operator of that way.

The rooms in the order of reading::

    node          the code on nodes; its own screen names the files
    rdt           declared RDT classes: capabilities, declarations, changes
    config        the YAML file: a model for each section, checks, the compiled form
    install       files, payload and units of a host, as a plan; then the changes
    inventory     pods, containers, groups and RMIDs as report objects; `feature_display`: the features for people
    explanation   the plan of a hook call, without the call
    doctor        checks and their remedies
    cli           a module for each command, imported when it is called
    parts, part   the front door of every house, and core's own
    metric, fuse  shared by several houses: a metric as a row; FUSE
    programs      calls of other programs for a limited time

Imports: no other house. `node` imports only the standard library and runs on Python 3.9.
"""
