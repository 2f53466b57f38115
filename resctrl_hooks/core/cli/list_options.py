"""Options of the commands that list pods, named as in kubectl: selection, order and output form."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from resctrl_hooks.core.cli.document import Form, is_table, output_option
from resctrl_hooks.core.inventory.find import ForeignGroupError, find
from resctrl_hooks.core.inventory.foreign import GroupName
from resctrl_hooks.core.inventory.models import Pod
from resctrl_hooks.core.inventory.podman import UnknownLabelsError
from resctrl_hooks.core.inventory.records import recorded
from resctrl_hooks.core.inventory.selector import PodLabels, Selector
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.log import Log
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG

WATCH_SECONDS = 2.0


@dataclass(frozen=True)
class ListOptions:
    """The requested selection, order and form."""

    pods: tuple[str, ...] = ()
    form: Form = "table"
    headers: bool = True
    namespace: str = ""
    selector: Selector | None = None
    sort: str = ""
    reverse: bool = False
    watch: bool = False
    labels: PodLabels = field(default_factory=PodLabels, repr=False, compare=False)

    @property
    def filtered(self) -> bool:
        """Whether the options select some of the pods."""
        return bool(self.pods or self.namespace or self.selector)

    def require_pods(self) -> None:
        """Check that the options select some of the pods.

        Raises:
            UsageError: they select all.
        """
        if not self.filtered:
            raise click.UsageError(
                "no pod given: name a pod, or select pods with -n or -l; `resctrl-hook list` shows all."
            )

    @property
    def table(self) -> bool:
        """Whether the output is a table for people."""
        return is_table(self.form)

    def chosen(self, context: Context, pods: Sequence[Pod]) -> list[Pod]:
        """Return the selected pods.

        Raises:
            NoSuchPodError: a named pod does not exist.
            UnknownLabelsError: a selector is given, and no pod's labels are known.
        """
        keys, _ = self.targets(context)
        found = [
            pod
            for pod in pods
            if (not self.pods or pod.key in keys) and (not self.namespace or pod.namespace == self.namespace)
        ]
        if self.selector is None:
            return found
        labels = [self.labels.of(context, pod) for pod in found]
        if found and all(one is None for one in labels):
            raise UnknownLabelsError(
                "no pod's labels are known: only CRI-O's hook, the NRI plugin and Podman pass them"
            )
        return [pod for pod, of in zip(found, labels, strict=True) if self.selector.matches(of or {})]

    def targets(self, context: Context) -> tuple[set[str], set[GroupName]]:
        """Return the keys of the named pods, and the named foreign groups.

        Raises:
            NoSuchPodError: no pod and no group, or several of them, match.
        """
        keys: set[str] = set()
        groups: set[GroupName] = set()
        for what in self.pods:
            try:
                keys.add(self.key(context, what))
            except ForeignGroupError as found:
                groups.add(found.group)
        return keys, groups

    def key(self, context: Context, what: str) -> str:
        """Return the key of a named pod, within the selected namespace.

        Raises:
            ForeignGroupError: it is the name of a foreign group.
            NoSuchPodError: no pod, or several pods, match.
        """
        return find(context, f"{self.namespace}/{what}" if self.namespace and "/" not in what else what)


def _selector(ctx: click.Context, param: click.Parameter, value: str | None) -> Selector | None:
    try:
        return None if value is None else Selector(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_SELECTION = (
    click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Pods of this namespace only."),
    click.option(
        "-l", "--selector", callback=_selector, metavar="SELECTOR", help="Pods with these labels, such as app=web."
    ),
)


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return completions for a pod's name: ``NAMESPACE/POD``, or the pod's name alone where nothing else matches."""
    from resctrl_hooks.core.cli.node import find_settings  # noqa: PLC0415  # opened where something is completed

    try:
        settings, _ = find_settings(ctx.find_root().params.get("config") or DEFAULT_CONFIG)
        context = Context(settings, Log({"target": "none"}))
        found = _names(context, str(ctx.params.get("namespace") or ""))
    except Exception:  # noqa: BLE001  # a shell that completes has no room for errors
        return []
    whole = sorted({name for name, _ in found if name.startswith(incomplete)})
    return whole or sorted({pod for _, pod in found if pod.startswith(incomplete)})


def _names(context: Context, namespace: str) -> list[tuple[str, str]]:
    from resctrl_hooks.core.inventory.pod_names import PodNames  # noqa: PLC0415  # as above

    keys = recorded(context)
    names = PodNames(context)
    names.learn(keys)
    of = [names.of(key) for key in keys]
    if namespace:
        return [(name.pod, name.pod) for name in of if name.namespace == namespace]
    return [(name.whole, name.pod) for name in of]


def select_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select pods; the command receives ``options``."""

    @functools.wraps(command)
    def called(*positional: Any, pods: tuple[str, ...], namespace: str, selector: Selector | None, **given: Any) -> Any:
        return command(*positional, options=ListOptions(pods, namespace=namespace, selector=selector), **given)

    for option in reversed(_SELECTION):
        called = option(called)
    return click.argument("pods", nargs=-1, shell_complete=complete, metavar="[POD]...")(called)


def list_options(sorts: Sequence[str], default: str) -> Callable[[Any], Any]:
    """Add the options to a command, which receives a `ListOptions` as ``options``."""
    options = [
        _SELECTION[0],
        click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces (the default)."),
        _SELECTION[1],
        click.option("--sort", type=click.Choice(sorts), default=default, show_default=True, help="Column to sort by."),
        click.option("--reverse", is_flag=True, help="Reverse the order."),
        click.option("--no-headers", is_flag=True, help="Print no header line."),
        click.option("-w", "--watch", is_flag=True, help="Keep running and print changes."),
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(*positional: Any, form: Form, namespace: str, all_namespaces: bool, **given: Any) -> Any:
            selected = ListOptions(
                form=form,
                headers=not given.pop("no_headers"),
                namespace="" if all_namespaces else namespace,
                **{name: given.pop(name) for name in ("pods", "selector", "sort", "reverse", "watch")},
            )
            return command(*positional, options=selected, **given)

        for option in reversed(options):
            called = option(called)
        return click.argument("pods", nargs=-1, shell_complete=complete, metavar="[POD]...")(output_option(called))

    return decorate
