"""Names in metrics: Kubernetes' as recorded, Podman's as Podman has them, and never an empty one for a pod."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.core.inventory import pod_names
from resctrl_hooks.core.inventory.pod_names import PodName, PodNames
from resctrl_hooks.core.inventory.podman import PodmanNames

WEB, DB, GONE = "a" * 64, "b" * 64, "c" * 64
POD = "d" * 64


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with plain_host(tmp_path) as found:
        yield found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return how often Podman itself was asked; it knows a pod, and a container of a plain root folder."""
    asked: list[str] = []

    def podman_names() -> PodmanNames:
        asked.append("podman ps")
        return PodmanNames({DB: "db"}, {POD: "shop"})

    monkeypatch.setattr(pod_names, "podman_names", podman_names)
    return asked


def container(host: MonitoredHost, key: str, id_: str, storage: Path) -> None:
    """A container of Podman's, recorded as a hook does."""
    bundle = storage / "overlay-containers" / id_ / "userdata"
    with host.context.monitor.hold(key) as locked:
        say(Path(locked.ensure_group().path), llc_occupancy=1)
        locked.add_member(id_, {"runtime": "podman", "bundle": str(bundle)})


def stored(storage: Path, *names: tuple[str, str]) -> None:
    (storage / "overlay-containers").mkdir(parents=True, exist_ok=True)
    entries = [{"id": id_, "names": [name], "metadata": "{}"} for id_, name in names]
    (storage / "overlay-containers/containers.json").write_text(json.dumps(entries))


def names_of(host: MonitoredHost, *keys: str) -> list[PodName]:
    names = PodNames(host.context)
    names.learn(keys)
    return [names.of(key) for key in keys]


def test_podman_is_not_asked_for_names_of_records_storage_and_programs(
    host: MonitoredHost, tmp_path: Path, asked: list[str]
) -> None:
    host.pod(0, "web-0")
    container(host, WEB, WEB, tmp_path)
    stored(tmp_path, (WEB, "web"))
    job = "job-17-of-the-batch"
    host.context.monitor.ensure_group(job)
    named = [PodName("shop", "web-0", ""), PodName("", "web", "web"), PodName("", job, "")]
    assert names_of(host, KEYS[0], WEB, job) == named
    assert asked == []


def test_podman_is_asked_for_missing_names_but_not_at_each_scrape(
    host: MonitoredHost, tmp_path: Path, asked: list[str]
) -> None:
    container(host, DB, DB, tmp_path)
    container(host, POD, WEB, tmp_path)
    container(host, GONE, GONE, tmp_path)
    names = PodNames(host.context)
    for _ in range(3):
        names.learn([DB, POD, GONE])
    assert [names.of(key) for key in (DB, POD, GONE)] == [
        PodName("", "db", "db"),
        PodName("", "shop", ""),
        PodName("", "c" * 12, ""),  # an unknown container: its short id
    ]
    assert len(asked) == 1


def test_names_of_removed_keys_are_forgotten_and_known_ones_kept(host: MonitoredHost, asked: list[str]) -> None:
    host.pod(0, "web-0")
    host.pod(1, "db-0")
    names = PodNames(host.context)
    names.learn(KEYS[:2])
    host.context.ledger.remove_pod(KEYS[1])
    names.learn(KEYS[:2])
    assert [names.of(key).whole for key in KEYS[:2]] == ["shop/web-0", "shop/db-0"]
    names.learn(KEYS[:1])
    assert [names.of(key).whole for key in KEYS[:2]] == ["shop/web-0", KEYS[1][:12]]
    assert asked == []
