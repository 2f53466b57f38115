"""What was learned about a workload: the cost of its work in quiet times, and which windows are quiet."""
