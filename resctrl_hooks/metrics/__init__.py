"""What this node's counters and we ourselves have to say, as OpenMetrics: collected, written, served."""
