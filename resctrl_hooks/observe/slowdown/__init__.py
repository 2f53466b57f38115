"""How much a pod is slowed: its evidence, and the experiment that proves which class slows it."""
