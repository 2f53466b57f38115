"""The kernel's answer to a refused command: an errno, and text for `info/last_cmd_status`."""

import os


class RefusedError(OSError):
    """A failed resctrl command. ``words`` are the lines for `info/last_cmd_status`, without newlines, if any."""

    def __init__(self, number: int, *words: str) -> None:
        super().__init__(number, os.strerror(number))
        self.words = words
