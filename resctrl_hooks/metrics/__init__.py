"""What this node's counters and we ourselves have to say, as metrics that prometheus_client writes and serves."""
