"""`resctrl-hook limits`: list the active limits of pods."""

import click
from rich.markup import escape

from resctrl_hooks.core.cli.document import Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.tables import NONE, Name, console, duration, print_table, table
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.limits.limiter import Limiter, is_in_force
from resctrl_hooks.observe.limits.model import LIST, Limit, Value

_CSV = (
    *attributes("pod", "key", "owner", "reason", "ends", "seconds"),
    ("values", lambda limit: "; ".join(one.text for one in limit.values)),
)


@click.command()
@output_option
@click.pass_obj
def command(config: str, *, form: Form) -> None:
    """List the active limits of pods: values, owner, reason, and the time until their end."""
    found = limits_of(open_node(config))
    if not is_table(form):
        print_listing(form, LIST, found, _CSV)
        return
    if not found:
        click.echo("no pod is limited")
        return
    rows = table("POD", "LIMIT", "ENDS IN", "BY", "REASON", names="POD")
    for limit in found:
        head = (Name(limit.pod), _ends(limit), limit.owner, limit.reason or NONE)
        for text in dict.fromkeys(map(_text, limit.values)) or [NONE]:
            rows.add_row(head[0], escape(text), head[1], escape(head[2]), escape(head[3]))
            head = (Name(""), "", "", "")
    print_table(console(), rows)


def limits_of(context: Context) -> list[Limit]:
    """Return the limits of a node with the names of its pods."""
    names = PodNames(context)
    names.learn(context.ledger.keys())
    return Limiter(context).limits(lambda key: names.of(key).whole)


def _ends(limit: Limit) -> str:
    if limit.seconds is None:
        return "the pod's end"
    return duration(limit.seconds) if limit.seconds > 0 else "over"


def _text(value: Value) -> str:
    """Return a value in words, with a foreign value of now."""
    if is_in_force(value):
        return value.text
    return f"{value.text} (now {'unknown' if value.now is None else value.now})"
