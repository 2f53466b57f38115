"""`kubectl resctrl diagnose`: why a pod is slowed, as its own node judges it, or all slowed pods of the cluster."""

import functools

import click

from resctrl_hooks.core.cli.document import Column, Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.errors import KUBECTL, FailedError
from resctrl_hooks.observe.cli.diagnosis_text import print_diagnosis
from resctrl_hooks.observe.slowdown.diagnosis import LIST

from .access import Access, access_options
from .api import Cluster
from .diagnoses import Answered, NodeDiagnosis, read_diagnoses

_CSV: tuple[Column, ...] = attributes(
    *("name", "node", "verdict", "ratio", "ratio_low", "ratio_high", "method", "samples", "baseline_samples", "reason")
)


@click.command("diagnose")
@access_options
@output_option
@click.option(
    "-n", "--namespace", default="", metavar="NAMESPACE", help="The pod's namespace, or pods of this one only."
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces (the default).")
@click.option("--no-headers", is_flag=True, help="Print no header line.")
@click.argument("pod", metavar="[POD]", default="")
def diagnose_command(
    *, access: Access, form: Form, namespace: str, all_namespaces: bool, no_headers: bool, pod: str
) -> None:
    """Show why a pod is slowed, by which pods, and the remedies; without POD, all slowed pods of the cluster.

    POD is a pod's name or NAMESPACE/POD. Its node's sampling process judges its last windows: nothing is measured
    now, and nothing is changed. Nodes judge pods if `slowdown.enabled` is set there.
    """
    space, _, name = pod.rpartition("/")
    namespace = "" if all_namespaces else space or namespace
    answers, judged = access.run(functools.partial(_judged, access=access, namespace=namespace, name=name))
    found = [one for one in judged if name or one.verdict == "slowed"]
    problems = [f"node {one.node}: {one.problem}" for one in answers if one.problem]
    if name and not found:
        raise FailedError(
            "; ".join(problems) or f"{pod} on node {answers[0].node} is not judged: it has no counters there"
        )
    found.sort(key=lambda one: -(one.ratio or 0.0))
    if not is_table(form):
        print_listing(form, LIST, found, _CSV, names=[one.name for one in found], headers=not no_headers)
    else:
        for number, one in enumerate(found):
            if number:
                click.echo()
            print_diagnosis(one)
            there = "; run the commands above there, as root" if any(of.command for of in one.remedies) else ""
            click.echo(f"  node: {one.node}{there}")
        if not found:
            silent = f"; {len(problems)} nodes without an answer or a judging process" if problems else ""
            result = f"no pod is slowed; {len(judged)} pods" if judged else "no pod"
            are = "are" if judged else "is"
            click.echo(f"{result} of {len(answers)} nodes {are} judged{silent}")
    for problem in problems:
        click.echo(f"{KUBECTL}: {problem}", err=True)


async def _judged(
    cluster: Cluster, *, access: Access, namespace: str, name: str
) -> tuple[list[Answered], list[NodeDiagnosis]]:
    """Return all answers, and the requested pods of them."""
    if name:
        there, metrics = await cluster.nodes_of(namespace, name)
        requested = {f"{one.namespace}/{one.name}" for one in there}
    else:
        metrics = await cluster.metrics_pods()
        access.check(metrics, "a POD")
    answers = await read_diagnoses(cluster, metrics)
    pods = [pod for one in answers for pod in one.pods]
    if name:
        return answers, [pod for pod in pods if pod.name in requested]
    return answers, [pod for pod in pods if not namespace or pod.name.startswith(f"{namespace}/")]
