"""Declared RDT classes: what resctrl can do here, what is declared, and how the two are brought together."""
