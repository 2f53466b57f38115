"""Values of a container's own cgroup: written, and told to systemd."""
