"""The roles of installed files. Their order is the order of writing; files are removed in the reverse order.

Each file follows the files that it depends on: what a runtime calls is written last and removed first.
"""

from typing import Final

SETTINGS: Final = "settings"
MODULE: Final = "module"
LAUNCHER: Final = "launcher"
FEATURES: Final = "features"
"""The facts for node-feature-discovery."""
UNIT: Final = "unit"
LINK: Final = "link"
"""A symbolic link that enables a unit."""
DROP_IN: Final = "drop-in"
HOOK: Final = "hook"

ROLES: Final = (SETTINGS, MODULE, LAUNCHER, FEATURES, UNIT, LINK, DROP_IN, HOOK)
UNLISTED: Final = (MODULE, LINK)
"""Roles that no manifest lists: releases up to 0.2 remove every listed path that they do not write themselves."""
