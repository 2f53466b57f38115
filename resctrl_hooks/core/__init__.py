"""The house of a pod's way: its first process enters its group and classes before it forks, and all is undone.

A runtime's state comes on stdin (`node/hook`), becomes a workload (`node/container`), a plan of steps
(`node/features`), and records and effects (`node/ledger`, `node/resctrl`, `node/sharing`). Poststop and `reconcile`
undo them (`node/lifecycle`, `node/reconcile`). All else serves the operator of that way.

In the order of reading: `node` (what nodes have; its own page names the files), `rdt` (declared classes), `config`
(the YAML file and its compiled form), `install` (files, units, payload), `inventory` and `explanation` (what commands
say of pods), `doctor` (checks), `cli` (commands). `parts` is the door of every house: what one adds is in its
``part.py``.

Imports: no other house. `node` imports only the standard library and runs on Python 3.9.
"""
