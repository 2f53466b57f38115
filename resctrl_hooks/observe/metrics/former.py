"""Former names of metrics, which are written beside the present ones for one version."""

from types import MappingProxyType

FORMER = MappingProxyType({"resctrl_counted_seconds": "resctrl_counter_seconds"})
"""The name in version 0.2 by the present one, both without the suffix of a counter."""
_HELP = b"\n# HELP "


def with_former_names(text: bytes) -> bytes:
    """Return a text format with each renamed family under its former name too.

    The text is copied, because writing a sample costs far more than all else of a scrape. Lines of samples are found by
    their beginning: label values have no line ends.
    """
    document = b"\n" + text
    for name, former in FORMER.items():
        for suffix in ("_total", ""):  # in Prometheus' format it is part of the family's name, in OpenMetrics it is not
            begin = document.find(_HELP + f"{name}{suffix} ".encode())
            if begin >= 0:
                end = document.find(_HELP, begin + 1)
                if end < 0:
                    end = len(document.removesuffix(b"# EOF\n")) - 1
                _, _, lines = document[begin + 1 : end].partition(b"\n")
                lines = (b"\n" + lines).replace(f"\n# TYPE {name}".encode(), f"\n# TYPE {former}".encode())
                lines = lines.replace(f"\n{name}".encode(), f"\n{former}".encode())
                head = _HELP + f"{former}{suffix} Former name of {name}_total.".encode()
                document = document[:end] + head + lines + document[end:]
    return document[1:]
