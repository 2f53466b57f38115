"""Memory domains; the capacity of each, and its source: configuration, firmware, or the largest rate so far."""
