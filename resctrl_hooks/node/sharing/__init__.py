"""Who is counted where a node has more pods than RMIDs: priorities, handing on, turns."""
