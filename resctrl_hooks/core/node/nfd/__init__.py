"""The facts of this node for node-feature-discovery: proved here, and written to its directory."""
