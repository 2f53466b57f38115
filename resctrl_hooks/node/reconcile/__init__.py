"""One pass over the node: the records made to agree with what runs."""
