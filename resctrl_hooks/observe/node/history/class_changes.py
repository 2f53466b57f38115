"""Changes of the RDT classes' schemata between samples, so that a picture shows whether a limit helped."""

from ....core.node.resctrl.layouts import L3, domain_folder
from ....core.node.resctrl.schemata import parse_schemata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Schemata = Mapping[str, Mapping[int, str]]

_CACHES = ("L3", "L3CODE", "L3DATA")
_LIMITS = ("MB", "SMBA")
_WITHOUT_COUNTERS = "L2"


def changes(
    before: "Mapping[str, str]", now: "Mapping[str, str]", limited: str = L3
) -> "Iterable[tuple[str, str, str]]":
    """Return class, domain and text of each difference between the schemata of two moments, by class.

    The domain is a folder of ``mon_data``: that of an L3 cache, or for ``MB`` one of the resource that it limits. A
    resource that is not known here has domains under its own name.

    Only these are parsed: nearly always nothing changes. A class that is only in one of the two was created or removed.
    """
    for name in sorted({*before, *now}):
        old, new = before.get(name, ""), now.get(name, "")
        if old != new:
            for domain, text in _by_domain(parse_schemata(old), parse_schemata(new), limited).items():
                yield name, domain, f"class {name or '/'}: {text}"


def _by_domain(old: "Schemata", new: "Schemata", limited: str) -> "dict[str, str]":
    found: "dict[str, list[str]]" = {}
    for resource in sorted({*old, *new}):
        if resource.startswith(_WITHOUT_COUNTERS):
            continue
        of = L3 if resource in _CACHES else limited if resource in _LIMITS else resource
        was, is_now = old.get(resource, {}), new.get(resource, {})
        for domain in sorted({*was, *is_now}):
            pair = was.get(domain, "none"), is_now.get(domain, "none")
            if pair[0] != pair[1]:
                found.setdefault(domain_folder(of, domain), []).append(f"{resource} {pair[0]} to {pair[1]}")
    return {domain: ", ".join(texts) for domain, texts in found.items()}
