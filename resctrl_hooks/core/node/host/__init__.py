"""The machine: files, processes, cgroups, systemd, topology; independent of settings."""
