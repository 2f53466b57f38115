"""Generator of the derived files in this repository: `nox -s generate`. A test compares them.

Each is what a command of the project prints or installs, kept here to be read, reviewed and applied without it.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from chart import chart
from dashboard import fleet, node
from man import man_page
from reference import in_page

from resctrl_hooks.cli.schemas import schemas
from resctrl_hooks.install.hook_json import hook_json
from resctrl_hooks.install.paths import HOOK_NAME
from resctrl_hooks.install.units import units
from resctrl_hooks.node.settings import DEFAULT_CONFIG
from resctrl_hooks.openshift.delivery import MANAGED_BY, delivery
from resctrl_hooks.openshift.machineconfig import butane, disruption_policy, machine_config
from resctrl_hooks.openshift.text import to_yaml

REPOSITORY = Path(__file__).parents[1]
SETTINGS = b'{"format": 1, "managedBy": "%s"}\n' % MANAGED_BY.encode()
REFERENCE = "docs/configuration-reference.md"
RULES = "contrib/prometheus/resctrl-hooks.rules.yaml"
TOP = ":top20"
MACHINE_CONFIG = "contrib/machineconfig/99-worker-resctrl-hooks.yaml"


def _machine_config() -> bytes:
    return to_yaml(machine_config(delivery(SETTINGS), "worker")).encode()


def _butane() -> bytes:
    return to_yaml(butane(delivery(SETTINGS, archive=False), "worker", modules="resctrl_hooks/node")).encode()


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
        "contrib/grafana/resctrl-hooks.json": fleet,
        "contrib/grafana/resctrl-hooks-node.json": node,
        "contrib/prometheus/prometheusrule.yaml": _prometheus_rule,
        "contrib/prometheus/resctrl-hooks-global.rules.yaml": _global_rules,
        f"hooks.d/{HOOK_NAME}": lambda: hook_json(DEFAULT_CONFIG),
        MACHINE_CONFIG: _machine_config,
        "contrib/machineconfig/99-worker-resctrl-hooks.bu": _butane,
        "contrib/machineconfig/node-disruption-policy.yaml": lambda: to_yaml(disruption_policy()).encode(),
    }
    made[REFERENCE] = lambda: in_page((REPOSITORY / REFERENCE).read_text()).encode()
    for name, text in chart().items():
        made[name] = lambda text=text: text.encode()  # type: ignore[misc]  # bound now, not later
    for command, schema in schemas().items():
        text = f"{json.dumps(schema, indent=2)}\n".encode()
        made[f"contrib/schema/{command}.json"] = lambda text=text: text  # type: ignore[misc]  # bound now, not later
    for name, text in units(DEFAULT_CONFIG).items():
        made[f"contrib/systemd/{name}"] = lambda text=text: text  # type: ignore[misc]  # bound now, not later
    return made


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
