"""The record of the changes that exclusive classes make to other classes, from which `rdt apply` restores them."""

import contextlib
import os

from pydantic import BaseModel, ValidationError

from resctrl_hooks.core.node.host.durable import replace_file
from resctrl_hooks.core.node.host.procfs import boot_id

from .capabilities import Schemata

NAME = "rdt-exclusive.json"
_MODE = 0o600
_FOLDER = 0o700


class Before(BaseModel):
    """Masks by class before their first change, and since the last one; the classes made exclusive in the kernel."""

    boot: str
    found: dict[str, Schemata]
    written: dict[str, Schemata]
    modes: list[str]

    def restorable(self, narrowed: dict[str, Schemata], now: dict[str, Schemata]) -> dict[str, Schemata]:
        """Return the masks to restore: of classes that exclusive classes do not concern any more.

        A mask that another program has changed since stays.
        """
        result: dict[str, Schemata] = {}
        for name, resource, domain, mask in _each(self.written):
            if domain in narrowed.get(name, {}).get(resource, {}):
                continue
            present = now.get(name, {}).get(resource, {}).get(domain)
            if present is not None and int(present, 16) == int(mask, 16):
                result.setdefault(name, {}).setdefault(resource, {})[domain] = self.found[name][resource][domain]
        return result

    def extended(self, narrowed: dict[str, Schemata], now: dict[str, Schemata]) -> "Before":
        """Return the record with the next changes: a mask found earlier stays the one to restore.

        ``now`` has a mask for each class, also for those that are created next.
        """
        found = {name: {resource: dict(of) for resource, of in masks.items()} for name, masks in self.found.items()}
        for name, resource, domain, _ in _each(narrowed):
            found.setdefault(name, {}).setdefault(resource, {}).setdefault(domain, now[name][resource][domain])
        left = {name: {resource: dict(found[name][resource]) for resource in masks} for name, masks in narrowed.items()}
        return self.model_copy(update={"found": left, "written": narrowed})


def read_before(state_dir: str, proc: str) -> Before:
    """Return the record of this boot; an empty one if it is missing, damaged or of another boot."""
    empty = Before(boot=boot_id(proc), found={}, written={}, modes=[])
    try:
        with open(f"{state_dir}/{NAME}", encoding="utf-8") as source:
            record = Before.model_validate_json(source.read())
    except (OSError, ValidationError, UnicodeDecodeError):
        return empty
    return record if record.boot == empty.boot else empty


def write_before(state_dir: str, before: Before) -> None:
    """Replace the record, or remove it if there is nothing to restore.

    Raises:
        OSError: from the kernel.
    """
    if not (before.found or before.written or before.modes):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{state_dir}/{NAME}")
        return
    os.makedirs(state_dir, _FOLDER, exist_ok=True)
    replace_file(f"{state_dir}/{NAME}", f"{before.model_dump_json()}\n".encode(), _MODE)


def _each(masks: dict[str, Schemata]) -> list[tuple[str, str, int, str]]:
    return [
        (name, resource, domain, mask)
        for name, schemata in masks.items()
        for resource, by_domain in schemata.items()
        for domain, mask in by_domain.items()
    ]
