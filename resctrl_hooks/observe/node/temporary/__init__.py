"""Values of RDT classes and cgroups that are changed for a time: recorded before, and restored at the latest then."""
