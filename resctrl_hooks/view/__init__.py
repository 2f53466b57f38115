"""A read-only tree of resctrl's shape with pods' totals, for programs that read such files. See docs/kepler.md."""
