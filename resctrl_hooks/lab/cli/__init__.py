"""The commands `demo` and `simulate`."""
