"""The house of OpenShift: the node half as a MachineConfig, for RHCOS nodes that have Python but nothing installed.

The files and units of an installation by core (`delivery`, with all modules in one `archive`) become an Ignition
configuration (`ignition`) in Kubernetes objects (`machineconfig`), which are printed as YAML (`text`).

The rooms in the order of reading: `cli` (the command `machineconfig`), `delivery`, `archive`, `ignition`,
`machineconfig`, `text`, `release` (the files of a release).

Imports: `core` only; nothing of this house is on a node.

Sources: the Ignition specification 3.2 to 3.5, Butane's OpenShift variant, and the machine-config-operator's documents.
"""
