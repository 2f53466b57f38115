"""Which pods are slowed, and why. Resident or run by a user, never by a hook.

In the order of a window::

    evidence   reads the kernel's counters, and makes the use of each pod in one window of them
    baseline   the cost of a workload's work in quiet times, learned and stored
    verdict    compares windows with the baseline: is the pod slowed, and by how much
    case       what the causes get: one pod, its windows, and its neighbours
    causes     why: a module for each shared resource and each limit of its own
    lost       the time that slowed pods lost, by cause and by culprit
    live       one pass through all of these, window by window
    status     the last verdicts as a file
    resident   `live` as a resident of the sampling process
"""
