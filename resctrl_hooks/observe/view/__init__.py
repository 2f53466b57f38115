"""A read-only tree in resctrl's layout with pods' totals, for programs that read such files. See docs/energy.md."""
