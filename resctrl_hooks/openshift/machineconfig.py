"""The Kubernetes objects that an administrator applies.

These are the MachineConfig, the same as Butane source, and a policy that avoids reboots for later changes.
"""

import re
from typing import Any, Final

from resctrl_hooks.core.install.paths import CODE
from resctrl_hooks.core.install.payload import is_payload_folder
from resctrl_hooks.core.install.unit_files import RESIDENT
from resctrl_hooks.core.install.units import COMPILE, MOUNT, RECONCILE, TIMER, WAKE

from .delivery import HOOK, SETTINGS, DeliveredFile, Delivery
from .ignition import ignition, systemd
from .release import CODE_ANNOTATION, VERSION_ANNOTATION, code_folder, entries
from .text import Mode

LARGEST: Final = 1 << 20
"""The maximum size of an object in etcd, and so in the API server, in bytes."""
BUTANE_VERSION: Final = "4.14.0"
_ROLE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
_LABEL: Final = "machineconfiguration.openshift.io/role"


def role_problem(role: str) -> str:
    """Return why this is not a valid pool name, or an empty string."""
    return (
        "" if _ROLE.fullmatch(role) else f"{role!r} is not a valid pool name: use lower-case letters, digits and dashes"
    )


def _name(role: str) -> dict[str, Any]:
    """Return the object's name, which also sets its order in the pool, and its pool."""
    return {"name": f"99-{role}-resctrl-hooks", "labels": {_LABEL: role}}


def machine_config(delivery: Delivery, role: str, kernel_arguments: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the MachineConfig."""
    about = {VERSION_ANNOTATION: delivery.version, CODE_ANNOTATION: code_folder(entries(delivery))}
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {**_name(role), "annotations": about},
        "spec": {
            **({"kernelArguments": list(kernel_arguments)} if kernel_arguments else {}),
            "config": ignition(delivery),
        },
    }


def machine_config_problems(value: dict[str, Any], text: str) -> list[str]:
    """Return the problems of a MachineConfig that its options and settings can cause, as object and as text."""
    found = []
    if len(text.encode()) >= LARGEST:
        found.append(f"too large: {len(text.encode())} bytes; the API server accepts less than {LARGEST}")
    arguments = value["spec"].get("kernelArguments", [])
    words = [argument for argument in arguments if not argument or argument.split() != [argument]]
    return found + [f"kernel argument {argument!r} is not one word" for argument in words]


def butane(
    delivery: Delivery, role: str, kernel_arguments: tuple[str, ...] = (), *, modules: str = ""
) -> dict[str, Any]:
    """Return the same as readable Butane source, for version control.

    With ``modules``, the folder of the node half below Butane's ``--files-dir``, its modules are not inline.
    """
    return {
        "variant": "openshift",
        "version": BUTANE_VERSION,
        "metadata": _name(role),  # this variant supports nothing else
        **({"openshift": {"kernel_arguments": list(kernel_arguments)}} if kernel_arguments else {}),
        "storage": {
            "files": [
                {
                    "path": file.path,
                    "mode": Mode(file.mode),
                    "overwrite": True,
                    "contents": _butane_contents(file, modules),
                }
                for file in delivery.files
            ]
        },
        "systemd": systemd(delivery),
    }


def _butane_contents(file: DeliveredFile, modules: str) -> dict[str, str]:
    folders = file.path.split("/")
    for depth, folder in enumerate(folders):
        if modules and is_payload_folder(folder):
            return {"local": "/".join([modules, *folders[depth + 1 :]])}
    return {"inline": file.data.decode()}


def disruption_policy() -> dict[str, Any]:
    """Return the cluster-wide policy: later changes need no reboot, and a changed unit is restarted.

    A mount cannot change while containers use it: new options of its unit act from the next boot on.

    Hooks read their settings at each call, CRI-O reads its hooks' folder again after a change, and each version has its
    own code folder. That folder's parent stands for all of them: the operator uses the longest path that matches a
    changed file (machine-config-operator, FindClosestFilePolicyPathMatch). An operator that matches whole paths only
    reboots the node for new code, as without the entry.

    In the API both lists are maps, by path and by name (openshift/api, operator/v1): a server-side apply adds these
    entries and keeps foreign ones.
    """
    nothing = [{"type": "None"}]
    reloads = [{"name": name, "actions": [{"type": "DaemonReload"}]} for name in (RECONCILE, MOUNT)]
    restarts = [
        {
            "name": name,
            "actions": [{"type": "DaemonReload"}, {"type": "Restart", "restart": {"serviceName": name}}],
        }
        for name in (COMPILE, TIMER, WAKE, *RESIDENT)
    ]
    return {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "MachineConfiguration",
        "metadata": {"name": "cluster"},
        "spec": {
            "nodeDisruptionPolicy": {
                "files": [{"path": path, "actions": nothing} for path in (SETTINGS, HOOK, CODE)],
                "units": [*reloads, *restarts],
            }
        },
    }
