"""The Helm chart: the manifests of contrib/daemonset and contrib/prometheus with values in place of constants.

Each replacement must match, so that a change of a manifest cannot silently lose a value of the chart.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

CONTRIB = Path(__file__).parent
CHART = "contrib/helm/resctrl-hooks"
HEAD = "{{- /* From contrib/%s; written by `nox -s generate`. */ -}}\n"
LABELS = '  labels:\n    {{- include "resctrl-hooks.labels" . | nindent 4 }}\n'


class Replaced(NamedTuple):
    """A text of a manifest, and what the chart has instead of it, wherever it occurs."""

    text: str
    by: str


class Template(NamedTuple):
    """A template of the chart.

    Args:
        source: the manifest, below contrib.
        when: the value that must be true for these objects to exist; empty: they always exist.
        replaced: texts that become values, in this order.
    """

    source: str
    when: str
    replaced: Sequence[Replaced]


def _yaml_of(value: str, indent: int) -> str:
    return f"\n{' ' * indent}{{{{- toYaml .Values.{value} | nindent {indent} }}}}\n"


NAMESPACE = Replaced("  namespace: resctrl-hooks\n", "  namespace: {{ .Release.Namespace }}\n" + LABELS)
SUBJECT = Replaced("    namespace: resctrl-hooks\n", "    namespace: {{ .Release.Namespace }}\n")
IMAGE = 'image: {{ include "resctrl-hooks.image" . }}\n'
NODES = (
    Replaced(
        "      nodeSelector:\n        kubernetes.io/os: linux\n", "      nodeSelector:" + _yaml_of("nodeSelector", 8)
    ),
    Replaced("      tolerations:\n        - operator: Exists\n", "      tolerations:" + _yaml_of("tolerations", 8)),
)
CHECKSUM = """      annotations:
        # Other settings, other pods: each installs again on its node.
        checksum/config: {{ toYaml .Values.config | sha256sum }}
    spec:
"""


def templates(image: str) -> dict[str, Template]:
    """Return the templates by file name.

    Args:
        image: the image that the manifests name.
    """
    named = Replaced(f"image: {image}\n", IMAGE)
    return {
        "resctrl-hooks.yaml": Template(
            "daemonset/resctrl-hooks.yaml",
            "",
            [
                NAMESPACE,
                named,
                *NODES,
                Replaced("value: crio\n", "value: {{ .Values.runtime }}\n"),
                Replaced("value: no-nfd\n", 'value: {{ ternary "nfd" "no-nfd" .Values.nodeFeatureDiscovery }}\n'),
                Replaced(f"value: {image.rpartition(':')[2]}\n", "value: {{ .Chart.AppVersion }}\n"),
                Replaced(
                    "  config.yaml: |\n"
                    "    # Everything has a default; see docs/configuration-reference.md.\n"
                    "    failurePolicy: ignore\n",
                    "  config.yaml: |" + _yaml_of("config", 4),
                ),
                Replaced("    spec:\n", CHECKSUM),
            ],
        ),
        "metrics.yaml": Template(
            "daemonset/metrics.yaml",
            "metrics.enabled",
            [
                NAMESPACE,
                named,
                *NODES,
                Replaced(
                    "values: [monitoring, openshift-monitoring]\n",
                    "values: {{ toJson .Values.metrics.scrapedFromNamespaces }}\n",
                ),
            ],
        ),
        "view.yaml": Template("daemonset/view.yaml", "metrics.enabled", []),
        "events.yaml": Template("events/events.yaml", "config.events", [SUBJECT, NAMESPACE, named, *NODES]),
        "podmonitor.yaml": Template(
            "prometheus/podmonitor.yaml",
            "monitoring.enabled",
            [NAMESPACE, Replaced("interval: 30s\n", "interval: {{ .Values.monitoring.interval }}\n")],
        ),
    }


PROMETHEUS_RULE = """{{- if .Values.monitoring.enabled }}
{{- $missing := "rules.yaml is missing: install the packaged chart of a release (`./dev release`)" }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: resctrl-hooks
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "resctrl-hooks.labels" . | nindent 4 }}
spec:
  {{- required $missing (.Files.Get "rules.yaml") | nindent 2 }}
{{- end }}
"""
HELPERS = """{{- define "resctrl-hooks.image" -}}
{{ .Values.image.repository }}
{{- with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "resctrl-hooks.labels" -}}
app.kubernetes.io/part-of: resctrl-hooks
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
"""
ABOUT = """# Written by `nox -s generate`.
apiVersion: v2
name: resctrl-hooks
description: Counts cache, memory bandwidth and energy of each pod through Linux's resctrl
type: application
version: {version}
appVersion: {app}
kubeVersion: ">=1.29.0-0"
"""


def rendered(template: Template) -> str:
    """Return a template's text.

    Raises:
        ValueError: a text that the chart replaces is not in the manifest.
    """
    text = (CONTRIB / template.source).read_text()
    text = text[text.index("apiVersion:") :]  # the comment before it tells how to apply the manifest
    for old, new in template.replaced:
        if old not in text:
            raise ValueError(f"contrib/{template.source} does not contain {old!r}, which the Helm chart replaces")
        text = text.replace(old, new)
    if template.when:
        text = f"{{{{- if .Values.{template.when} }}}}\n{text}{{{{- end }}}}\n"
    return HEAD % template.source + text


def semantic(version: str) -> str:
    """Return a version as Helm wants it: a development version is a pre-release."""
    return version.replace(".dev", "-dev.")


def chart() -> dict[str, str]:
    """Return the chart's generated files by path in the repository; values and their schema are written by hand."""
    kustomization = yaml.safe_load((CONTRIB / "daemonset/kustomization.yaml").read_text())
    version = kustomization["labels"][0]["pairs"]["app.kubernetes.io/version"]
    made = {name: rendered(one) for name, one in templates(f"registry.example.com/resctrl-hooks:{version}").items()}
    made |= {"prometheusrule.yaml": PROMETHEUS_RULE, "_helpers.tpl": HELPERS}
    return {
        f"{CHART}/Chart.yaml": ABOUT.format(version=semantic(version), app=version),
        **{f"{CHART}/templates/{name}": text for name, text in made.items()},
    }


def packaged(folder: Path) -> Path:
    """Copy the chart, with the rules of contrib/prometheus, into a folder; return the copy.

    The repository has the rules once. Helm reads only files inside of a chart.
    """
    found = folder / Path(CHART).name
    shutil.copytree(CONTRIB.parent / CHART, found)
    shutil.copy(CONTRIB / "prometheus/resctrl-hooks.rules.yaml", found / "rules.yaml")
    return found
