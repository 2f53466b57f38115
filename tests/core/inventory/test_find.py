"""Search for a pod by each of its names, and the errors for names that no pod or several pods have."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden import Golden
from hosts.monitored import KEYS, MonitoredHost, plain_host, replace_podman

from resctrl_hooks.core.inventory.details import details_of
from resctrl_hooks.core.inventory.feature_display.table import display, names
from resctrl_hooks.core.inventory.find import ForeignGroupError, NoSuchPodError, SeveralPodsError, find
from resctrl_hooks.core.node.refusals import record_refusal

WEB, DB, NEVER = "a" * 64, "b" * 64, "d" * 64


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Pods shop/web-0 and shop/db-0 with a container each, and a refused pod shop/never."""
    with plain_host(tmp_path, "info", "gold/mon_groups") as found:
        for number, (name, id_) in enumerate((("web-0", WEB), ("db-0", DB))):
            found.group(number, name)
            with found.context.monitor.hold(KEYS[number]) as locked:
                locked.add_member(id_, {"runtime": "cri-o"})
        names = {"namespace": "shop", "pod": "never", "container": "c1", "id": NEVER, "key": KEYS[5]}
        record_refusal(found.context.ledger.folder, names, "no RMID is free")
        found.context.ledger.mark("waiting", KEYS[4])
        yield found


def test_pod_is_found_by_each_of_its_names(host: MonitoredHost) -> None:
    names = {
        0: (KEYS[0], KEYS[0].replace("-", ""), KEYS[0][:5], KEYS[0].upper()[:5], WEB, WEB[:12], "web-0", "shop/we"),
        1: (DB[:3], "shop/db-0"),
        5: (KEYS[5], KEYS[5].upper()[:5], NEVER[:8], "never", "shop/never"),
        4: (KEYS[4],),
    }
    for number, of in names.items():
        assert {find(host.context, what) for what in of} == {KEYS[number]}


def test_podman_is_asked_only_for_an_unknown_name(
    host: MonitoredHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, pod, member, gone = ("1" * 63 + letter for letter in "abcd")
    lines = ((alone, "once", "", ""), (member, "member", pod, "group"), (gone, "gone", gone, "other"))
    words = " ".join(f"'{word}'" for line in lines for word in line)
    asked = tmp_path / "asked"
    replace_podman(tmp_path, monkeypatch, f"echo >>{asked}\nprintf '%s\\t%s\\t%s\\t%s\\n' {words}\n")
    with pytest.raises(NoSuchPodError):
        find(host.context, "once")  # no container of Podman's is recorded
    for key, id_ in ((alone, alone), (pod, member)):
        with host.context.monitor.hold(key) as locked:
            locked.add_member(id_, {"runtime": "podman"})
    assert find(host.context, "web-0") == KEYS[0]
    assert not asked.exists()
    assert [find(host.context, what) for what in ("once", "member", "group")] == [alone, pod, pod]
    for what in ("gone", "other", "onc"):
        with pytest.raises(NoSuchPodError, match="unknown pod"):
            find(host.context, what)


def test_unknown_name_is_refused_with_a_similar_one_or_a_hint(host: MonitoredHost, golden: Golden) -> None:
    record_refusal(host.context.ledger.folder, {"id": "9" * 64}, "the bundle cannot be read")
    short = ("a", "aa", "b", KEYS[0][:2], "we", "d", "n", "")
    for what in (*short, "nope", "../..", "web-01", KEYS[6], "shop/never-1", "shop/web-1", "9" * 8):
        with pytest.raises(NoSuchPodError) as caught:
            find(host.context, what)
        golden(f"{caught.value}\n{caught.value.hint}", what or "nothing")


def test_name_of_several_pods_is_refused_with_at_most_eight_of_them(host: MonitoredHost) -> None:
    with pytest.raises(SeveralPodsError, match=r"'shop/' matches 2 pods: shop/db-0, shop/web-0;"):
        find(host.context, "shop/")
    for number in range(10):
        with host.context.monitor.hold(f"c{number}") as locked:
            locked.record.update({"namespace": "many", "pod": f"pod-{number}"})
            locked.save()
    first = ", ".join(f"many/pod-{number}" for number in range(8))
    with pytest.raises(SeveralPodsError, match=f"'many/' matches 10 pods: {first};"):
        find(host.context, "many/")


@pytest.mark.parametrize("rdt_class, what", [("", "mon_groups/other"), ("gold", "gold/mon_groups/other")])
def test_foreign_group_is_named_with_its_folder(host: MonitoredHost, rdt_class: str, what: str) -> None:
    folder = host.resctrl / rdt_class / "mon_groups/other"
    folder.mkdir()
    for name in (what, "other"):
        with pytest.raises(ForeignGroupError, match=f"{name}.* is a foreign group without a record: {folder};"):
            find(host.context, name)
    unknown = (".", "..", "nobody", "gold", f"{what}/x", f"{what[:-5]}..", what[:-5])
    for name in (*unknown, "other"):
        if name == "other":
            shutil.rmtree(host.resctrl)  # its group is foreign only while resctrl is there
        with pytest.raises(NoSuchPodError, match="unknown pod or container"):
            find(host.context, name)


BGS = {"feature": "scheduling", "action": "schedule", "needs": {"class": "bg", "process": {"nice": 10}}}


@pytest.mark.parametrize("feature", ["memory", "memtierd", "placement", "blockio", "rdt"])
def test_record_of_another_version_hides_no_other_feature(feature: str) -> None:
    def details(**more: Any) -> Any:
        record: Any = {"id": "c" * 64, "steps": [{"feature": feature, "action": "?", **more}, BGS]}
        return details_of(record)

    for needs in ({}, None, {"class": None, "limits": None, "names": ["a"], "decision": "?"}):
        found = details(needs=needs)
        assert found["scheduling"] == {"class": "bg", "nice": 10}
        assert (feature in found) != (feature in found.get("unreadable", {}))
        for row in map(display, names()):
            assert row.columns is None or len(row.columns.cells([found])) == len(row.columns.heads)
    assert details()["unreadable"] == {feature: "KeyError: 'needs'"}
