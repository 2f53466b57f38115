"""Rates, usage and load from two snapshots, as rows for every output.

The way of a value from a counter's file to a row of `top`::

    Source    the last value of each file of a group    core/node/resctrl/total.py
    Total     the sum of a key's differences to it      core/node/resctrl/total.py
    Reading   a key's total or gauge, in one domain     core/node/resctrl/counters.py
    Snapshot  all readings of the node at a moment      observe/node/snapshot/snapshot.py
    Line      a user's increases between two snapshots  observe/inventory/rates.py

Groups and classes without a key have values of files in a snapshot. Metrics are made from one snapshot.
"""
