"""The house that reads what the node counts, and judges it: who suffers, because of whom, what helps.

All counters of a moment are one snapshot (`node/snapshot`). Two snapshots give rates and loads (`inventory`), which
commands show (`cli`), `metrics` serves and `recording` writes. The resident process (`node/sampler`) gives each
snapshot to history (`node/history`), slowdown (`node/slowdown`) and guard (`node/guard`).

The rooms in the order of reading::

    node               snapshot, sampling process and its residents
    inventory          rates, use, load; `columns` has a row for each measured column
    cli, params        `top` and the other commands; their options
    metrics            Prometheus and OpenTelemetry
    slowdown           `diagnose`: evidence, diagnosis; its `experiment`
    limits             `limit`: values of running pods that are lowered for a time
    past               the history as snapshots, for ``--at``
    recording          `record` and `report`
    cluster            `kubectl resctrl`: all nodes, from the metrics of each
    events, view       Kubernetes Events; pods' totals as a resctrl tree
    config, service    the keys; the unit of the sampling process
    doctor, documents  checks; the schemas of JSON documents

Imports: `core` only. Without this house a node has groups, classes and limits; its counters are not read.
"""
