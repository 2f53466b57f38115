"""Which class a container has, and what follows from it."""
