"""The library: mon_groups, counters and their totals.

::

    filesystem, kernel_refusals, absence    resctrl's files, and explanatory errors
    layouts, schemata, bandwidth_unit       names and formats of these files
    group, group_names, locked_key, trial   one key's groups and members, under its lock
    monitor                                 the interface of all this
    identities, looks, mounts               which group is which, also after a rename or a mount
    renaming, moved, prefix_change          renames by this project, and by others
    rmids                                   numbers of RMIDs and CLOSIDs
    counters, counter_files, open_files     one read of a group's counters
    bandwidth                               the resource that counts memory bandwidth
    sources                                 the groups that a read has seen, and from where each continues
    total                                   the arithmetic: what a value adds to a total
    energy_baseline                         PERF_PKG counters of a new group
    key_counts, counters_record             a key's sources and totals, and their form on disk
    totals_file, carried                    the file of all keys; a read added to it
    counter_totals, turn_counts             a read of all keys, with the error of time-shared counters
    group_moves                             the last read before this project removes or renames a group
    assignment, memory_counters             assignable bandwidth counters, and their release
    counter_share                           the decision which groups have one
"""
