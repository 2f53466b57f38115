"""Generator of the derived files: those in this repository (`nox -s generate`), and those of a release.

The first are small: people read, review and apply them without the program, and a test compares them. The others are
renderings of the code itself, which would repeat each of its changes in the history.
"""

import io
import json
import os
import re
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import yaml
from chart import chart
from dashboard import fleet, node
from man import man_page
from measured import columns, metrics
from picture import kubectl_nodes, kubectl_top, picture, topology
from reference import in_page, reference

from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.install.hook_json import hook_json
from resctrl_hooks.core.install.paths import HOOK_NAME
from resctrl_hooks.core.install.unit_files import units
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG
from resctrl_hooks.openshift.delivery import MANAGED_BY, delivery
from resctrl_hooks.openshift.machineconfig import butane, disruption_policy, machine_config
from resctrl_hooks.openshift.text import to_yaml

REPOSITORY = Path(__file__).parents[1]
SETTINGS = b'{"format": 1, "managedBy": "%s"}\n' % MANAGED_BY.encode()
PARTS = {"docs/configuration-reference.md": reference, "docs/looking.md": columns, "docs/metrics.md": metrics}
"""By page, the generator of a part of it."""
RULES = "contrib/prometheus/resctrl-hooks.rules.yaml"
TOP = ":top20"
CONTENTS = "contrib/machineconfig/contents.txt"
MACHINE_CONFIG = "99-worker-resctrl-hooks.yaml"


def _machine_config() -> bytes:
    return to_yaml(machine_config(delivery(SETTINGS), "worker")).encode()


def _butane() -> bytes:
    return to_yaml(butane(delivery(SETTINGS, archive=False), "worker", modules="resctrl_hooks")).encode()


def _contents() -> bytes:
    """Return what a MachineConfig puts on a node: mode and path of each file, and the units that start at boot.

    The modules' folder carries their digest, which is left out, so that only a new or renamed file changes the list.
    """
    content = delivery(SETTINGS, archive=False)
    files = [f"{file.mode:04o} {re.sub('/node-[0-9a-f]+/', '/node-*/', file.path)}" for file in content.files]
    units = [f"{'enabled' if unit.enabled else 'started'} {unit.name}" for unit in content.units]
    return "\n".join(["# Written by `nox -s generate`: a review aid.", *sorted(files), *sorted(units), ""]).encode()


def _archive(members: dict[str, bytes]) -> bytes:
    """Return a compressed tar that is the same for the same commit."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:xz") as archive:
        for name, data in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
            archive.addfile(member, io.BytesIO(data))
    return whole.getvalue()


def _schemas() -> bytes:
    """Return the JSON Schemas of all commands' output, as an archive."""
    return _archive({f"{name}.json": f"{json.dumps(one, indent=2)}\n".encode() for name, one in schemas().items()})


def _prometheus_rule() -> bytes:
    """Return the rules for the Prometheus Operator."""
    rules = yaml.safe_load((REPOSITORY / RULES).read_text())
    return to_yaml(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "resctrl-hooks", "namespace": "resctrl-hooks"},
            "spec": rules,
        },
        head="resctrl-hooks.rules.yaml for the Prometheus Operator; written by `nox -s generate`.",
    ).encode()


_GLOBAL_HEAD = """The rules of resctrl-hooks.rules.yaml that are about all nodes, for the Prometheus above several that
each see a part of the nodes (docs/metrics.md); written by `nox -s generate`."""


def _global_rules() -> bytes:
    """Return the rules whose result has no instance, or needs all instances: they ask for recorded series only."""
    found = []
    for group in yaml.safe_load((REPOSITORY / RULES).read_text())["groups"]:
        rules = [rule for rule in group["rules"] if is_global(rule.get("record", "instance:"))]
        if rules:
            found.append(group | {"rules": rules})
    return to_yaml({"groups": found}, head=_GLOBAL_HEAD).encode()


def is_global(record: str) -> bool:
    """Return whether a recorded series needs all nodes."""
    return not record.startswith("instance") or record.endswith(TOP)


def files() -> dict[str, Callable[[], bytes]]:
    """Return the generator of each file, by its path in the repository."""
    made: dict[str, Callable[[], bytes]] = {
        "docs/resctrl-hook.8": man_page,
        "docs/top.svg": picture,
        "docs/kubectl-nodes.svg": kubectl_nodes,
        "docs/kubectl-top.svg": kubectl_top,
        "docs/topology.svg": topology,
        "contrib/grafana/resctrl-hooks.json": fleet,
        "contrib/grafana/resctrl-hooks-node.json": node,
        "contrib/prometheus/prometheusrule.yaml": _prometheus_rule,
        "contrib/prometheus/resctrl-hooks-global.rules.yaml": _global_rules,
        f"hooks.d/{HOOK_NAME}": lambda: hook_json(DEFAULT_CONFIG),
        CONTENTS: _contents,
        "contrib/machineconfig/node-disruption-policy.yaml": lambda: to_yaml(disruption_policy()).encode(),
    }
    for page, part in PARTS.items():
        made[page] = lambda page=page, part=part: in_page((REPOSITORY / page).read_text(), part()).encode()  # type: ignore[misc]  # bound now, not later
    for name, text in chart().items():
        made[name] = lambda text=text: text.encode()  # type: ignore[misc]  # bound now, not later
    for name, unit in units(DEFAULT_CONFIG).items():
        made[f"contrib/systemd/{name}"] = lambda unit=unit: unit  # type: ignore[misc]  # bound now, not later
    return made


def released(version: str) -> dict[str, Callable[[], bytes]]:
    """Return the generator of each file that only a release has, by its name there."""
    return {
        MACHINE_CONFIG: _machine_config,
        MACHINE_CONFIG.replace(".yaml", ".bu"): _butane,
        f"resctrl-hooks-schemas-{version}.tar.xz": _schemas,
    }


def main() -> None:
    """Write all of them."""
    for name, make in files().items():
        path = REPOSITORY / name
        data = make()
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
