"""Names of keys without asking Podman: records, the storage of containers, and short ids."""

import json
from pathlib import Path

import pytest
from hosts.monitored import KEYS, plain_host

from resctrl_hooks.core.node.container.names import RecordedNames, stored_names

ALONE = "ab" * 32


@pytest.mark.parametrize("file", ["containers.json", "volatile-containers.json"])
def test_container_without_a_pod_has_the_name_of_its_storage(tmp_path: Path, file: str) -> None:
    with plain_host(tmp_path, "info") as host:
        storage = tmp_path / "overlay-containers"
        (storage / ALONE / "userdata").mkdir(parents=True)
        (storage / file).write_text(json.dumps([{"id": ALONE, "names": ["cart", "other"]}, {"id": "x"}, 7]))
        names = RecordedNames(host.context.ledger)
        with host.context.monitor.hold(ALONE) as locked:
            details = {"runtime": "podman", "container": "", "bundle": f"{storage}/{ALONE}/userdata"}
            locked.add_member(ALONE, details, host.process())
        names.learn([ALONE])
        assert names.of(ALONE) == ("", "cart", "cart")


def test_recorded_pod_has_its_names_and_an_unknown_key_a_short_id(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info") as host:
        host.group(0, "web-0")
        names = RecordedNames(host.context.ledger)
        names.learn([KEYS[0], ALONE])
        assert names.of(KEYS[0]) == ("shop", "web-0", "")
        assert names.of(ALONE) == ("", ALONE[:12], "")


@pytest.mark.parametrize(
    "content, names",
    [
        ('[{"id": "a", "names": ["web", "alias"]}, {"id": "b", "names": ["db"]}]', {"a": "web", "b": "db"}),
        ('[{"id": "a", "names": []}, {"id": "b"}, "text", 1, {"names": ["x"]}, {"id": "c", "names": ["x"]}]', {}),
        ('[{"id": "a", "names": "text"}, {"id": "b", "names": null}]', {}),
        *((damaged, {}) for damaged in ("", "{", '{"id": "a", "names": ["web"]}', '"text"')),
    ],
)
def test_names_of_storage_are_those_of_usable_entries(tmp_path: Path, content: str, names: dict[str, str]) -> None:
    (tmp_path / "containers.json").write_text(content)
    (tmp_path / "volatile-containers.json").symlink_to("/dev/zero")
    assert stored_names({"a": f"{tmp_path}/a/userdata", "b": f"{tmp_path}/b/userdata"}) == names
    assert stored_names({"a": "a/userdata", "b": ""}) == {}
