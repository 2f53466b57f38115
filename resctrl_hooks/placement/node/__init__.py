"""The node half of placement: CPUs and memory nodes of containers by pluggable policies.

In the order of a container's life::

    request, annotated, expressions     a container's request, within its namespace's permissions
    hints, affinity, memory_nodes       its devices, its neighbours, its kinds of memory
    feature, placing                    the feature for core: a place is decided, recorded and applied under one lock
    usage, entries, allocations         the present use of CPUs; the record of each place
    allocator, policy, policy_file      the decision by the configured policy, or one of the operator's
    topology_aware, exclusive_cpus      the policy of parts of the machine; whole CPUs for one container
    balloons, pools, instances          the policies of growing and of static pools
    pool_choice, pool_sets              a container's pool, and a pool's CPUs
    others, kubelet                     CPUs of other programs
    cpuset_writer, finishing            the writes in a safe order; the end of each change of places
    node_changes, node_values           values of the node that follow from places, and their restoration:
    cpu_classes, cpu_values             frequencies,
    idle_states, uncore                 C-states, uncore frequencies,
    interrupts, irqbalance              interrupts
    reconcile, specified                repair; cpusets of this project's NRI plugin
"""
