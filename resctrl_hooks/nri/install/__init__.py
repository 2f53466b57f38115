"""The plugin's service, and the setting of containerd that allows plugins."""
