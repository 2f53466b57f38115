"""Paths of all installed files, as seen from the host's root.

``/usr/local`` is writable where ``/usr`` is not (CoreOS: ``/var/usrlocal``). SELinux's targeted policies label its
``libexec`` ``usr_t``, which container runtimes, in whose domain hooks run, may read.
"""

from typing import Final

PYTHON: Final = "/usr/bin/python3"
CODE: Final = "/usr/local/libexec/resctrl-hooks"
LAUNCH: Final = f"{CODE}/launch.py"
MANIFEST: Final = f"{CODE}/manifest.json"
# Bytecode, created at each boot, for hosts whose code folder is read-only or must stay as delivered.
BOOT_CODE: Final = "/run/resctrl-hooks-code"
UNITS: Final = "/etc/systemd/system"

# The distribution's hook directory, and the administrator's.
VENDOR_HOOKS: Final = "/usr/share/containers/oci/hooks.d"
ADMIN_HOOKS: Final = "/etc/containers/oci/hooks.d"
HOOK_NAME: Final = "resctrl-hooks.json"
