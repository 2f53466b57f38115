"""The node half of core: the code inside every container start and stop, of reconcile, and of the exec watcher.

It runs as ``python3 -I -S`` on Python 3.9 and later without other packages, and every container pays for its start-up
time. So it imports builtins and small C modules only (``posix`` instead of ``os``, ``_json`` instead of ``json``), and
all imports inside are relative, so that the folder runs from any path.

The rooms and files in the order of a pod's life::

    launch, bytecode, archive          the start: one compiled file, or a MachineConfig's archive
    main, version                      the command line, for hooks and units
    part, parts, feature_table         the houses' parts; all features in the order of their steps
    settings, durations, context       the compiled configuration; the environment of one call, with its deadline
    hook                               `call`: one call of a runtime; `create_runtime` with its steps; `poststop`
    container, names                   the state and the bundle become a workload, with its key and its cgroup
    registry, feature, features        the plan: each feature that applies returns its steps
    classes, permissions, class_needs  a container's classes, and what the operator permits
    ledger, locks, state_folders       the record before the effect, under the key's lock
    records, shapes                    the types of records, from which the checks at reading follow
    flags, pointers                    marks of the whole node; records without a container
    sharing                            the choice of pods while RMIDs are too few
    resctrl                            groups, counters, totals, and the `Monitor` of all of them
    cgroup_settings, outside           values of the cgroup; programs, while the key is free
    failure_policies, refusals         the consequences of a failure; recently refused containers
    lifecycle                          dead members and groups, and their release
    reconcile, set_aside, restored     a pass over the node: completes and repairs the work of hooks
    watch                              the exec watcher
    nfd                                the file for node-feature-discovery
    errors, error_types, fault_report  errors for operators; bugs as one line
    log, plain_log, call_metrics       log lines; number and duration of calls
    once, retried                      messages that are logged once; writes that are retried
    host                               the machine: files, processes, cgroups, systemd, topology

The contract "Rooms of core's node half" in ``pyproject.toml`` has the layers.
"""
