"""The files and units that a MachineConfig delivers to a node, independent of its format."""

from collections.abc import Collection
from typing import Final, NamedTuple

from resctrl_hooks.core.config.applied import MACHINE_CONFIG
from resctrl_hooks.core.install.hook_json import hook_json
from resctrl_hooks.core.install.houses import needed
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, BOOT_CODE, CODE, HOOK_NAME, LAUNCH, PYTHON
from resctrl_hooks.core.install.payload import NFD, payload
from resctrl_hooks.core.install.unit_files import resident, units
from resctrl_hooks.core.install.units import COMPILE, MOUNT, RECONCILE, TIMER, WAKE
from resctrl_hooks.core.node.archive import ARCHIVE
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.host.files import parse_json
from resctrl_hooks.core.node.registry import is_in_use
from resctrl_hooks.core.node.settings import Settings

from .archive import pack

MANAGED_BY: Final = MACHINE_CONFIG
SETTINGS: Final = "/etc/resctrl-hooks/config.json"
# OpenShift's CRI-O also reads the administrator's folder; /usr is read-only.
HOOK: Final = f"{ADMIN_HOOKS}/{HOOK_NAME}"
_MODE: Final = 0o644
# This module starts the node half before bytecode exists, so it cannot be in the archive.
_BESIDE: Final = ("core/node/launch.py", "core/node/archive.py")


class DeliveredFile(NamedTuple):
    """A file on the node."""

    path: str
    data: bytes
    mode: int = _MODE


class DeliveredUnit(NamedTuple):
    """A systemd unit on the node; timer and path start reconcile's service, so it is not enabled."""

    name: str
    text: str
    enabled: bool


class Delivery(NamedTuple):
    """Files in the order in which the machine config operator writes and removes them; and units.

    The hook's JSON is written last. It is also removed last, which is harmless: its command turns missing files into
    success.
    """

    version: str
    files: list[DeliveredFile]
    units: list[DeliveredUnit]


def delivery(
    settings: bytes,
    *,
    mount: bool = True,
    mount_options: str = "",
    python: str = PYTHON,
    chosen: Collection[str] = (),
    archive: bool = True,
) -> Delivery:
    """Return the files and units for compiled settings, also for the ``chosen`` houses.

    With ``archive``, all modules are in one compressed file, otherwise each is a readable file.

    The modules' folder carries their digest, so that an update never mixes two versions; the operator removes the old
    folder's files after writing the new ones. Bytecode is compiled at each boot below /run, because the operator would
    not remove files that it does not know.
    """
    values = Settings(parse_json(settings))
    services = resident(values, chosen)
    code = payload(needed(values, (*chosen, NFD)), features=[name for name in FEATURES if is_in_use(name, values)])
    boot_code = f"{BOOT_CODE}/{code.folder}"
    modules = {name: code.modules[name] for name in _BESIDE} | {ARCHIVE: pack(code.modules)}
    files = [
        DeliveredFile(f"{CODE}/{code.folder}/{name}", data)
        for name, data in (modules if archive else code.modules).items()
    ]
    files += [
        DeliveredFile(LAUNCH, code.launch(BOOT_CODE)),
        DeliveredFile(SETTINGS, settings),
        DeliveredFile(HOOK, hook_json(SETTINGS, python=python)),
    ]
    texts = units(
        SETTINGS,
        state=values.state_dir,
        resctrl=values.resctrl_path,
        features=values.node_features_path,
        options=mount_options,
        python=python,
        boot_code=boot_code,
    )
    names = [*([MOUNT] if mount else []), COMPILE, RECONCILE, TIMER, WAKE, *services]
    return Delivery(
        code.version,
        files,
        [DeliveredUnit(name, texts[name].decode(), enabled=name != RECONCILE) for name in names],
    )
