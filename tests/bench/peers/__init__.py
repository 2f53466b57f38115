"""Compares placement with the policies of nri-plugins: machines, sessions of containers, both sides, measures."""
