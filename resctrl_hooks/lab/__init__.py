"""The house of a node without hardware: simulation and demo."""
