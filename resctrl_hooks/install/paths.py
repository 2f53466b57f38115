"""Where everything lies on a host, as seen from its root.

``/usr/local`` because it is writable where ``/usr`` isn't (CoreOS: ``/var/usrlocal``). SELinux's targeted policies
label what lies below its ``libexec`` ``usr_t``, which container runtimes, in whose domain hooks run, may read.
"""

from typing import Final

PYTHON: Final = "/usr/bin/python3"
CODE: Final = "/usr/local/libexec/resctrl-hooks"
LAUNCH: Final = f"{CODE}/launch.py"
MANIFEST: Final = f"{CODE}/manifest.json"
# Bytecode for hosts whose code folder can't be written, or must stay as it was delivered: made at each boot.
BOOT_CODE: Final = "/run/resctrl-hooks-code"
UNITS: Final = "/etc/systemd/system"

# The one of all hook directories that comes with the distribution, and the administrator's.
VENDOR_HOOKS: Final = "/usr/share/containers/oci/hooks.d"
ADMIN_HOOKS: Final = "/etc/containers/oci/hooks.d"
HOOK_NAME: Final = "resctrl-hooks.json"
