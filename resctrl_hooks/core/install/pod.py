"""The installation by a DaemonSet's pod: its manifests may be older than its image, and then leave something out."""

import os
from typing import Final

from .tree import Tree
from .unit_files import BY_SETTINGS

VARIABLE: Final = "MANIFESTS"
"""The variable with the version of the manifests; 0.2.0 and its successors up to the next release do not set it."""
UNKNOWN: Final = "unknown"
_RUNNING: Final = "/run/systemd/system"
_MISSING: Final = (
    f"older ones do not start {' and '.join(BY_SETTINGS)} and lack the NetworkPolicy resctrl-hooks-metrics"
)


def manifests_version(tree: Tree) -> str:
    """Return the version of the manifests that run the installer in a pod; empty if no pod installs.

    A pod installs below a root that is a running host, unlike an image's.
    """
    return (os.environ.get(VARIABLE) or UNKNOWN) if tree.root and tree.exists(_RUNNING) else ""


def outdated(manifests: str, version: str) -> str:
    """Return what is wrong with manifests beside an image of a version; empty if nothing is."""
    if manifests in ("", version):
        return ""
    missing = f"; {_MISSING}" if manifests == UNKNOWN else ""
    return f"the DaemonSet's manifests are of version {manifests}, its image is of {version}{missing}"


REMEDY: Final = "apply contrib/daemonset, or the chart, of the image's version"
