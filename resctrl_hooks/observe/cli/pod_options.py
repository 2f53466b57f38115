"""The options that `list` and `show` have of this house: ``--at`` for the past, and ``--rates``."""

import functools
from collections.abc import Callable
from typing import Any

import click

from resctrl_hooks.core.cli.added import with_sentence
from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.observe.params import at_option, interval_option, refuse_with_at

_Command = Callable[..., Any]


def list_options(command: _Command) -> _Command:
    """Add ``--at`` to `list`."""

    @at_option
    @functools.wraps(command)
    def called(config: str, *, options: ListOptions, when: float | None, **given: Any) -> None:
        if when is None:
            command(config, options=options, **given)
            return
        refuse_with_at(when, demand=given["demand"], all=given["every"], watch=options.watch, selector=options.selector)
        context = open_node(config)
        from resctrl_hooks.observe.cli.past_text import past_pods, print_list  # noqa: PLC0415  # SQLite, for the past only

        print_list(options.form, *past_pods(context, when, options.pods, options.namespace), headers=options.headers)

    called.__doc__ = with_sentence(
        command, "With --at it lists the pods of that time that are in the history, with class and counters."
    )
    return called


def show_options(command: _Command) -> _Command:
    """Add ``--rates`` with ``--interval``, and ``--at``, to `show`."""

    @click.option("--rates", is_flag=True, help="Also measure bandwidth and power for one interval.")
    @interval_option("1s", "Interval of --rates, such as 500ms, 2s or 1m.")
    @at_option
    @functools.wraps(command)
    def called(config: str, *, options: ListOptions, when: float | None, **given: Any) -> None:
        if when is None:
            command(config, options=options, **given)
            return
        options.require_pods()
        refuse_with_at(when, watch=options.watch, selector=options.selector)
        context = open_node(config)
        from resctrl_hooks.observe.cli.past_text import past_pods, print_details  # noqa: PLC0415  # as above

        print_details(options.form, *past_pods(context, when, options.pods, options.namespace), headers=options.headers)

    called.__doc__ = with_sentence(command, "With --at it shows the counters and rates of that time, from the history.")
    made: _Command = called
    return made
