"""Sharing of RMIDs on nodes with more pods than RMIDs: priorities, handover, turns."""
