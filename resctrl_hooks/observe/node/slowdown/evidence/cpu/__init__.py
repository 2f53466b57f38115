"""Evidence about CPUs: who uses them, who waits for them, and what each cgroup's weight entitles it to."""
