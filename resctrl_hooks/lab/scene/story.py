"""The demo's second part: a noisy neighbour on a simulated node, found, proved and limited by commands."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import click

from resctrl_hooks.lab.demo.bundle import Bundle
from resctrl_hooks.lab.demo.interrupts import waiting
from resctrl_hooks.lab.demo.story import DemoError
from resctrl_hooks.lab.demo.subject import RuntimeFailedError
from resctrl_hooks.lab.demo.text import heading

from .node import Node
from .scenes import CULPRIT, PODS, VICTIM

RUNTIMES = ("runc", "crun")
_VICTIM, _CULPRIT = VICTIM.full_name, CULPRIT.full_name
_RATIO = re.compile(r"its work takes ([0-9.]+) times")
_PROVE = f"diagnose {_VICTIM} --for 5s --experiment"
_LIMIT = re.compile(rf"`resctrl-hook (limit {_CULPRIT} [^`]+)`")
_USUAL_LIMIT = f"limit {_CULPRIT} --mb 40"


class Prepared(NamedTuple):
    """A node with quiet pods, whose costs are learned in the background."""

    node: Node
    pods: Future[str]
    """Done when the pods run: their kind in words."""
    learned: Future[None]
    background: ThreadPoolExecutor


@contextmanager
def prepared() -> Iterator[Prepared]:
    """Begin a node in a temporary folder, which is removed at the end.

    Raises:
        MountError: it cannot be mounted.
    """
    with (
        tempfile.TemporaryDirectory(prefix="resctrl-demo-", ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(1) as background,
    ):
        node = Node(os.path.realpath(folder))
        try:
            node.start()
            yield Prepared(node, background.submit(_add_pods, node), background.submit(_learn, node), background)
        finally:
            background.shutdown(wait=False, cancel_futures=True)
            node.stop()  # ends a command that still runs in the background
            background.shutdown()
            node.remove_pods()


def _learn(node: Node) -> None:
    node.sample()
    node.learn()


def tell(begun: Prepared) -> None:
    """Run the commands and explain them.

    Raises:
        DemoError: a step had an unexpected result.
        RuntimeFailedError: a command failed.
    """
    node = begun.node
    with waiting():
        kind = begun.pods.result()
    click.echo()
    click.secho(f"A noisy neighbour: three pods on a simulated node ({kind})", bold=True)
    heading("1. A quiet node")
    _show_top(node)
    _explain("Each pod is counted. Meanwhile `diagnose` learns what the work of each costs in quiet times (12 s).")
    with waiting():
        begun.learned.result()
    node.play("noisy")
    diagnosis = begun.background.submit(node.run, *shlex.split(_PROVE))  # meanwhile, `top`
    heading(f"2. {_CULPRIT} starts its nightly job")
    _show_top(node)
    _explain(f"{_CULPRIT} takes most of the memory bandwidth. Does that slow another pod?")
    heading("3. Who suffers, and why? (20 s)")
    found = _show(node, _PROVE, rf"{_VICTIM}: |because|less memory|MB of .*limited", diagnosis)
    before = _ratio(found, "slowed")
    _explain(
        "The experiment limits the class in random windows and compares the victim's cost, which proves the cause."
    )
    heading("4. Limit it, without a restart")
    limit = _LIMIT.search(found)
    _show(node, f"{limit[1] if limit else _USUAL_LIMIT} --for 30m", ".")
    _explain("The pod moves to a class with less bandwidth. The limit ends by itself.")
    heading("5. Did it help?")
    after = _ratio(_show(node, f"diagnose {_VICTIM} --for 5s", rf"{_VICTIM}: |memory domain"), "")
    if after >= before:
        raise DemoError(f"the limit did not help: {_VICTIM} is slowed {after} times, and was {before} times")
    _explain("The victim is nearly as fast as in quiet times, and the nightly job goes on.")
    _report(node)
    node.remove_pods()


def _add_pods(node: Node) -> str:
    """Add the pods as containers if a runtime can run some here, else as plain processes; return their kind."""
    why = ""
    for runtime in () if os.geteuid() else filter(shutil.which, RUNTIMES):
        try:
            for pod in PODS:
                node.add(pod, Bundle(node.stage, runtime, pod.container_id, pod.annotations))
        except RuntimeFailedError:
            node.remove_pods()
            why = f"; {runtime} cannot run a container here"
        else:
            return f"containers of {runtime}"
    for pod in PODS:
        node.add_process(pod)
    return f"plain processes{why}"


def _show_top(node: Node) -> None:
    _show(node, "top --once", r"memory|POD|~?(shop|batch)/")


def _show(node: Node, words: str, shown: str, begun: Future[str] | None = None) -> str:
    """Run a command, if it is not ``begun``, and print lines that begin with a pattern; return its whole output."""
    click.echo(f"   $ resctrl-hook {words}")
    with waiting():
        output = begun.result() if begun else node.run(*shlex.split(words))
    output = output.replace(f" --config {node.stage.config}", "")
    for line in output.splitlines():
        if re.match(rf"\s*(helps: )?({shown})", line):
            click.echo(f"     {line.strip()}")
    return output


def _explain(text: str) -> None:
    click.secho(f"   {text}", dim=True)


def _ratio(output: str, verdict: str) -> float:
    """Return the victim's ratio in the output of `diagnose`."""
    found = _RATIO.search(output)
    if found is None or verdict not in output:
        raise DemoError(f"unexpected result of `diagnose`:\n{output}")
    return float(found[1])


def _report(node: Node) -> None:
    """Write the report page, which stays."""
    heading("6. The report")
    descriptor, page = tempfile.mkstemp(prefix="resctrl-demo-", suffix=".html")
    os.close(descriptor)
    _show(node, f"report --since '2m ago' -o {page}", "$")
    _explain(f"Open it in a browser: {page}")
