"""The configuration keys of the plugin, and of what only it can set."""
