"""The keys of `top` in words: the last line of each mode, and the help."""

from typing import Final

from resctrl_hooks.observe.cli.top_state import SORT_KEYS, Mode
from resctrl_hooks.observe.inventory.columns import COLUMNS
from resctrl_hooks.observe.inventory.limited import HEADING as LIMITED
from resctrl_hooks.observe.inventory.limited import MARK as LIMIT_MARK
from resctrl_hooks.observe.inventory.slowdown import HEADING, MEANING

_TABLE = ("q quit", "/ filter", "Enter open", "space pause", "t totals", "? help")
_TYPED = ("Enter apply", "Esc cancel")
_POD = ("Esc back", "up down scroll", "l limit", "u unlimit", "space pause", "q quit")
FOOTS: Final = {
    Mode.TABLE: _TABLE,
    Mode.FILTER: _TYPED,
    Mode.TIME: _TYPED,
    Mode.POD: _POD,
    Mode.LIMIT: ("Enter plan", "Esc cancel", "options of `resctrl-hook limit`"),
    Mode.QUESTION: ("y apply", "any other key: cancel"),
}
_HEADINGS = ", ".join(column.heading for column in COLUMNS)
_MEANINGS = "\n".join(f"{column.heading:<10}{column.meaning}" for column in COLUMNS).replace("`", "")
HELP: Final = f"""\
{" ".join(SORT_KEYS)}   sort by {_HEADINGS}, {HEADING} or name
r           reverse the order
t           next totals: pods, namespaces, RDT classes
d           next domain: all, then each L3 cache, then each memory that counts itself
/           filter by part of a name; Enter applies the filter, Esc removes it
up down, j k, PgUp PgDn, Home End, mouse   select a line, which stays selected; Esc ends that
Enter       open the line: a pod's page (Esc returns), the pods of a namespace
l  u        on a pod's page: limit what helps it, or the pod; end its limits; after a question
space       pause or continue
left right  one sample back or forth in the history; with Shift ten
[ ]  {{ }}    a minute back or forth; an hour
g           go to a time: 14:00, yesterday 14:00, 3m ago
End         return to the present
q           quit

{_MEANINGS}
{HEADING:<10}{MEANING.replace("`", "")}
MBM%      part of the node's memory bandwidth
{LIMITED:<10}limited values, and their first end; without room for them, {LIMIT_MARK} begins the pod's name
LAST      MBM of the last samples; all rows have the same scale
With Shift, the mouse marks text as usual.

Press any key to return."""
"""All keys, and what the columns mean."""
