"""The outcome of restoring the values of the node that a program had changed, such as the bandwidth guard.

A part names the function that restores them among its `values`. Each pass of reconcile calls it (`cleanup`), so that a
killed program leaves nothing, and so does an uninstallation (`release`). Features do the same in `repair` and
`withdraw`; their `Row.leaves` returns whether they have changed values (`repaired`).
"""


class Restored:
    """The results of a restoration: texts by outcome. ``owner`` names the process that changed the values."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.done: "list[str]" = []
        self.foreign: "list[str]" = []
        self.failed: "list[str]" = []
