"""The house that reads what the node counts, and judges it: who suffers, because of whom, what helps.

All counters of a moment are one snapshot (`node/snapshot`). Two snapshots give rates and loads (`inventory`), which
commands show (`cli`), `metrics` serves and `recording` writes. The resident process (`node/sampler`) gives each
snapshot to history (`node/history`), slowdown (`node/slowdown`) and guard (`node/guard`).

In the order of reading: `node`, `inventory`, `cli`, `metrics`, `slowdown` (evidence and experiment), `past` (the
history as snapshots), `recording` (reports), `cluster` (`kubectl resctrl`), `events`, `view`, `config`, `doctor`.

Imports: `core` only. Without this house a node has groups, classes and limits, and nobody reads the counters.
"""
