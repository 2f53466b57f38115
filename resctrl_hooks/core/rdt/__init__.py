"""Declared RDT classes: resctrl's capabilities, the declarations, and their comparison and application."""
