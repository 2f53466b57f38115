"""Names of keys from the hooks' records and from Podman's storage, without asking Podman itself."""

from ..host.files import parse_json, read_small_file
from ..names import is_hex, pod_uid_validator, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..ledger import Ledger

    Name = tuple[str, str, str]

_STORED = ("containers.json", "volatile-containers.json")
_LIMIT = 1 << 24
SHORT_ID = 12
_CONTAINER_ID = 64


def short_id(id_: str) -> str:
    """Return the start of a container id or pod UID, as in Podman and crictl.

    Any other key is a program's own name for its group, and stays whole.
    """
    return id_[:SHORT_ID] if is_hex(id_, _CONTAINER_ID) or pod_uid_validator(id_) else id_


class RecordedNames:
    """Namespace, pod and container of each key. Names never change, so each is looked up until it is known."""

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._known: "dict[str, Name]" = {}

    def of(self, key: str) -> "Name":
        """Return the names of a key; a short id while the name is unknown."""
        return self._known.get(key) or ("", short_id(key), "")

    def learn(self, keys: "Iterable[str]") -> None:
        """Update the names for the existing keys."""
        existing = set(keys)
        for key in self._known.keys() - existing:
            del self._known[key]
        bundles: "dict[str, str]" = {}
        for key in existing - self._known.keys():
            record = self._ledger.read_pod(key) or {}
            if record.get("pod"):
                self._known[key] = str(record.get("namespace", "")), str(record["pod"]), ""
                continue
            member = self._ledger.read_member(key, key) or {}  # a container without a pod is its own key
            if member.get("bundle"):
                bundles[key] = str(member["bundle"])
        for key, name in stored_names(bundles).items():
            self._known[key] = "", name, name


def stored_names(bundles: "dict[str, str]") -> "dict[str, str]":
    """Return the names of containers by id from the storage that holds their bundles.

    Source: containers-storage's ``overlay-containers/containers.json``, in the parent folder of the containers'
    folders, and ``volatile-containers.json`` for those of ``podman run --rm``. A container of a plain root folder
    (``--rootfs``) is not listed there.
    """
    folders = {bundle.rpartition("/")[0].rpartition("/")[0] for bundle in bundles.values() if bundle[:1] == "/"}
    found: "dict[str, str]" = {}
    for folder in sorted(folders):
        for file in _STORED:
            try:
                entries = parse_json(read_small_file(f"{folder}/{file}", _LIMIT))
            except (OSError, ValueError):
                continue
            for entry in entries if isinstance(entries, list) else ():
                names = entry.get("names") if isinstance(entry, dict) else None
                if isinstance(names, list) and names and entry.get("id") in bundles:
                    found[str(entry["id"])] = printable(str(names[0]))
    return found
