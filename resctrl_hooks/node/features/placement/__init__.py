"""CPUs and memory nodes by pluggable policies."""
