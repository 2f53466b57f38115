"""`doctor`'s checks of the plugin, and of the runtime that calls it."""
