"""The parts of the houses' node code: each module has one `NodePart`, ``PART``, and imports only `part`."""
