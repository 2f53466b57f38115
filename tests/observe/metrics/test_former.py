from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector

from resctrl_hooks.observe.metrics.former import with_former_names

NAME, FORMER = "resctrl_counted_seconds", "resctrl_counter_seconds"
FORMATS = [(generate_latest, parse), (generate_openmetrics, parse_openmetrics)]


class Families(Collector):
    def __init__(self, *families: Metric) -> None:
        self.families = families

    def collect(self) -> tuple[Metric, ...]:
        return self.families


def registry(*families: Metric) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(Families(*families))
    return made


def seconds(*pods: str) -> Metric:
    family = CounterMetricFamily(NAME, "Time that a counter has counted.", labels=["pod"])
    for number, pod in enumerate(pods):
        family.add_metric([pod], number + 0.5)
    return family


@pytest.mark.parametrize("write, read", FORMATS)
@pytest.mark.parametrize("others", [0, 1])
def test_family_has_equal_samples_under_its_former_name(
    write: Callable[[CollectorRegistry], bytes], read: Callable[[str], list[Metric]], others: int
) -> None:
    pods = ("web", NAME, f"\n{NAME}_total", f'# HELP {NAME} "x"\\', "ä")  # names by people are not changed
    after = [GaugeMetricFamily("resctrl_scrape_ok", "1 if it is.", 1)] * others
    text = write(registry(seconds(*pods), *after))
    found = {family.name: family for family in read(with_former_names(text).decode())}
    assert [*found] == [NAME, FORMER, *(one.name for one in after)]
    new, former = found[NAME], found[FORMER]
    assert [sample.labels["pod"] for sample in new.samples] == [*pods]
    assert former.samples == [sample._replace(name=f"{FORMER}_total") for sample in new.samples]
    assert (former.type, former.documentation) == ("counter", f"Former name of {NAME}_total.")


@pytest.mark.parametrize("write, read", FORMATS)
def test_text_without_a_renamed_family_is_not_changed(
    write: Callable[[CollectorRegistry], bytes], read: object
) -> None:
    text = write(registry(GaugeMetricFamily("resctrl_scrape_ok", f"1 if {NAME} is.", 1)))
    assert with_former_names(text) == text
