"""Our objects before an API server takes them."""
