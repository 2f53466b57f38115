"""OpenShift: the node half as a MachineConfig, for RHCOS nodes that have Python but nothing installed.

Sources: the Ignition specification 3.2 to 3.5, Butane's OpenShift variant, and the machine-config-operator's documents.
"""
