"""The past of a node from its history: times in words, and stored samples as the snapshots that commands show."""
