"""Changes of the RDT classes' schemata between samples, so that a picture shows whether a limit helped."""

from ..resctrl.schemata import parse_schemata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Schemata = Mapping[str, Mapping[int, str]]

_RESOURCES = ("L3", "MB", "SMBA")
"""The beginnings of resources whose domains are L3 caches (resctrl.rst, "Resource alloc and monitor groups")."""


def changes(before: "Mapping[str, str]", now: "Mapping[str, str]") -> "Iterable[tuple[str, int, str]]":
    """Return class, L3 domain and text of each difference between the schemata of two moments, by class.

    Only these are parsed: nearly always nothing changes. A class that is only in one of the two was created or removed.
    """
    for name in sorted({*before, *now}):
        old, new = before.get(name, ""), now.get(name, "")
        if old != new:
            for domain, text in _by_domain(parse_schemata(old), parse_schemata(new)).items():
                yield name, domain, f"class {name or '/'}: {text}"


def _by_domain(old: "Schemata", new: "Schemata") -> "dict[int, str]":
    found: "dict[int, list[str]]" = {}
    for resource in sorted({*old, *new}):
        if not resource.startswith(_RESOURCES):
            continue
        was, is_now = old.get(resource, {}), new.get(resource, {})
        for domain in sorted({*was, *is_now}):
            pair = was.get(domain, "none"), is_now.get(domain, "none")
            if pair[0] != pair[1]:
                found.setdefault(domain, []).append(f"{resource} {pair[0]} to {pair[1]}")
    return {domain: ", ".join(texts) for domain, texts in found.items()}
