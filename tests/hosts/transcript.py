"""What several calls print, as one text for `golden`: what an earlier call printed, too, is told by its number."""

import difflib


class Transcript:
    """Calls with their output; ``str`` of it is the text."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._said: dict[int, list[str]] = {}

    def add(self, number: int, call: str, text: str, code: int = 0) -> None:
        """Add a call: its whole output, or the lines in which it differs from the most similar one before."""
        said = text.strip("\n").split("\n") if text.strip("\n") else []
        head = f"{number}$ {call}" + (f" => {code}" if code else "")
        shortest, like = said, -1
        for earlier, lines in self._said.items():
            # Whole lines are compared: paths of other lengths must not change what is found.
            changes = [*difflib.unified_diff(lines, said, n=0, lineterm="")][2:]
            found = [f"{line[0]} {line[1:]}".rstrip() for line in changes if line[0] in "+-"]
            if len(found) < len(shortest):
                shortest, like = found, earlier
        self._lines += [head if like < 0 else f"{head}  as {like}", *(f"  {line}" for line in shortest)]
        if said:
            self._said[number] = said

    def __str__(self) -> str:
        return "\n".join(self._lines)
