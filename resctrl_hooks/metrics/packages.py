"""The metric family of the packages' own energy, of which the pods' energy is a part."""

from prometheus_client.core import CounterMetricFamily, Metric

from resctrl_hooks.inventory.package_energy import POWERCAP, Packages


def package_family(powercap: str = POWERCAP) -> Metric:
    """Return the energy of each processor package; without samples if the kernel has no RAPL."""
    found = CounterMetricFamily(
        "resctrl_package_energy",
        "Energy of a processor package (RAPL): cores, caches, memory controllers and I/O.",
        labels=["package"],
        unit="joules",
    )
    for package, joules in Packages(powercap).read().items():
        found.add_metric([package.rpartition("-")[2]], joules)
    return found
