"""Values in a container's own cgroup: written to its files and sent to systemd."""
