"""The kernel's answer to a command that it refuses: an errno, and words for `info/last_cmd_status`."""

import os


class RefusedError(OSError):
    """A command of resctrl that failed.

    Args:
        number: The errno that the caller gets.
        words: Lines for `info/last_cmd_status`, without newlines; none where the kernel says nothing.
    """

    def __init__(self, number: int, *words: str) -> None:
        super().__init__(number, os.strerror(number))
        self.words = words
