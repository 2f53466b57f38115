"""The node half of observe: one process reads all counters for guard, history and slowdown.

In the order of reading::

    snapshot   one read of all counters, and the increase between two reads; commands and metrics use it too
    resident   the interface between the process and its residents
    sampler    the process: its loop, and the table of residents
    capacity   what each memory domain carries, and the source of that
    history    the rows of a sample, and the file of past ones
    temporary  values of classes and cgroups that are changed for a time
    slowdown   evidence, baselines, verdicts and causes: which pods are slowed, and why
    guard      the bandwidth guard, and the lease of its changed values
    watch      restores values of programs that have ended

No hook imports this code, so it may import more modules of the standard library (``tests/project/test_node_half.py``).
"""
