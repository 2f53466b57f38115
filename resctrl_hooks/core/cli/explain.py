"""`resctrl-hook explain`: show why a pod has no group, or what the hook would do for a container state. Read-only."""

import json
import os
import sys

import click

from resctrl_hooks.core.cli.document import Form, attributes, is_table, output_option, print_listing
from resctrl_hooks.core.cli.errors import INVALID, FailedError
from resctrl_hooks.core.cli.list_options import complete
from resctrl_hooks.core.cli.node import open_node
from resctrl_hooks.core.cli.same_config import with_config
from resctrl_hooks.core.config import find_effective
from resctrl_hooks.core.explanation.explain import explain
from resctrl_hooks.core.explanation.model import Explanation, StepModel
from resctrl_hooks.core.node.container.oci import CREATE_RUNTIME, POSTSTOP, STATE_LIMIT
from resctrl_hooks.core.node.errors import InputError, SettingsError

STOPPED = "stopped"
_FACTS = ("runtime", "key", "namespace", "pod", "container", "cgroup", "podCgroup", "bundle")
_WORDS = {"podCgroup": "pod's cgroup"}

_CSV = attributes("feature", "action", "why", "where", "finds")


@click.command()
@click.argument("pod", required=False, shell_complete=complete)
@click.option(
    "--stage", type=click.Choice([CREATE_RUNTIME, POSTSTOP]), help="The hook stage; default: from the state's status."
)
@click.option("--bundle", metavar="PATH", default="", help="A config.json to use instead of the one in the bundle.")
@output_option
@click.pass_obj
def command(config: str, pod: str | None, stage: str | None, bundle: str, *, form: Form) -> None:
    """Explain why a pod of this node has no group, or what the hook would do for the OCI state on stdin. Read-only.

    POD is NAMESPACE/POD, a pod's name, or the start of its key or of a container's id.
    """
    if pod is not None:
        if stage or bundle:
            raise click.UsageError("--stage and --bundle are for a container state on stdin, not for a pod")
        _explain_pod(config, pod, form)
        return
    if sys.stdin.isatty():
        text = "name a pod, or pass a container state on stdin; try: runc state ID | resctrl-hook explain"
        raise click.UsageError(text)
    try:
        found = find_effective(config)
        report = explain(sys.stdin.buffer.read(STATE_LIMIT + 1), found, stage=stage or "", bundle=bundle)
    except (InputError, SettingsError) as error:
        raise FailedError(str(error), INVALID) from error
    if is_table(form):
        _print(report)
    else:
        print_listing(form, "ExplanationList", [report.as_json()], _CSV, report.steps)


def _explain_pod(config: str, pod: str, form: Form) -> None:
    from resctrl_hooks.core.doctor.host import Host  # noqa: PLC0415  # a hook's state needs nothing of the installation
    from resctrl_hooks.core.doctor.ungrouped import PodExplanation, explain_pod  # noqa: PLC0415

    host = Host(os.path.abspath(config))
    if host.settings_problem:
        raise FailedError(host.settings_problem, INVALID)
    open_node(config)  # for its remark on an edit that is not applied
    found = explain_pod(host, pod)
    found.text, found.next_command = with_config(found.text), with_config(found.next_command)
    if not is_table(form):
        print_listing(form, "PodExplanationList", [found], attributes(*PodExplanation.model_fields))
        return
    click.echo(f"{_plain(found.name)}: {found.reason}")
    click.echo(f"  {_plain(found.text)}")
    if found.next_command:
        click.echo(f"next: {_plain(found.next_command)}")


def _print(report: Explanation) -> None:
    process = {"lives": f"process {report.pid}", "gone": f"process {report.pid} has ended", "none": "no process"}[
        report.process
    ]
    stopped = report.stage != POSTSTOP or report.status == STOPPED
    status = f"status {report.status}" if stopped else f"evaluated as stopped; the state's status is {report.status}"
    click.echo(f"{report.stage} of container {report.container} ({status}, {process})")
    click.echo(f"settings: {report.settings}")
    for name in _FACTS:
        value = report.workload.get(name)
        if value:
            of = f" (the {report.workload['keyOf']}'s)" if name == "key" and "keyOf" in report.workload else ""
            click.echo(f"  {_WORDS.get(name, name)}: {_plain(value)}{of}")
    click.echo("steps:" if report.steps else "steps: none")
    for step in report.steps:
        _print_step(step)
    for note in report.notes:
        click.echo(f"note: {_plain(note)}")
    click.echo(f"outcome: {_plain(report.outcome)}")


def _print_step(step: StepModel) -> None:
    if step.skipped:
        click.echo(f"  - {step.feature}: skipped: {_plain(step.why)}")
        return
    click.echo(f"  - {step.feature}: {step.action} ({_plain(step.why)})")
    if step.where:
        click.echo(f"      where: {_plain(step.where)}; {_plain(step.finds)}")
    elif step.needs:
        click.echo(f"      with: {json.dumps(step.needs)}")


def _plain(text: str) -> str:
    """Return a pod author's text without control characters, safe for a terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
