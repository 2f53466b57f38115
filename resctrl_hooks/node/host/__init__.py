"""The machine: files, processes, cgroups, systemd, topology. Knows no settings."""
