"""Since when RDT classes have their values, in words: for `top --by class` and `diagnose`."""

import time

from rich.text import Text

from resctrl_hooks.core.cli.tables import age
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.inventory.class_changes import ClassChange

BY_CLASS = "class"
_MOST = 3  # lines above the table of `top`


def since_text(one: ClassChange, now: float | None = None) -> str:
    """Return a change as ``class bronze since 14:02:10 (12m ago): MB 100 to 30``; of another day, with the date."""
    at = time.time() if now is None else now
    today = time.localtime(one.since)[:3] == time.localtime(at)[:3]
    clock = time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", time.localtime(one.since))
    return f"class {one.rdt_class or '/'} since {clock} ({age(int(one.since), at)} ago): {one.change}"


def changed(scene: Scene, by: str, width: int) -> list[Text]:
    """Return a line for each of the newest changes, where `top` has a row for each class."""
    made = [Text(since_text(one), no_wrap=True) for one in scene.changes()[:_MOST]] if by == BY_CLASS else []
    for line in made:
        line.truncate(width, overflow="ellipsis")
    return made
