"""The family of the packages' own energy: what of it pods do not have is neither theirs nor lost."""

from prometheus_client.core import CounterMetricFamily, Metric

from resctrl_hooks.inventory.package_energy import POWERCAP, Packages


def package_family(powercap: str = POWERCAP) -> Metric:
    """Return the energy of each processor package; without samples where the kernel has no RAPL."""
    found = CounterMetricFamily(
        "resctrl_package_energy",
        "Energy of a processor package by RAPL: its cores, caches, memory controllers and I/O.",
        labels=["package"],
        unit="joules",
    )
    for package, joules in Packages(powercap).read().items():
        found.add_metric([package.rpartition("-")[2]], joules)
    return found
