"""The outcome of restoring the values of the node that a program had changed."""


class Restored:
    """The results of a restoration: texts by outcome. ``owner`` names the process that changed the values."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.done: "list[str]" = []
        self.foreign: "list[str]" = []
        self.failed: "list[str]" = []
