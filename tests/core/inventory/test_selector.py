"""Label selectors: each form, and invalid ones."""

import pytest
from click.testing import CliRunner
from conftest import Host, fixture, state

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.inventory import selector
from resctrl_hooks.core.inventory.models import Container, Pod
from resctrl_hooks.core.inventory.selector import Selector, labels_of
from resctrl_hooks.core.node.errors import InputError

LABELS = {"app": "web", "app.kubernetes.io/tier": "front", "empty": ""}


@pytest.mark.parametrize(
    "text,chosen",
    [
        ("app=web", True),
        ("app == web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("other!=web", True),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("other notin (db)", True),
        ("app", True),
        ("other", False),
        ("!other", True),
        ("! app", False),
        ("app.kubernetes.io/tier=front,app in (web,db),!debug", True),
        ("app=web,debug", False),
        ("empty=", True),
    ],
)
def test_selector_matches_as_in_kubernetes(text: str, chosen: bool) -> None:
    assert Selector(text).matches(LABELS) is chosen


def test_labels_are_those_of_the_first_container_that_has_any(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def labels(id_: str, *_: object) -> dict[str, str]:
        if id_ == "broken":
            raise InputError("cannot read it")
        return {"gone": {}, "app": {"app": "web"}, "other": {"app": "db"}}[id_]

    monkeypatch.setattr(selector, "recorded_workload", lambda id_, *_: id_)
    monkeypatch.setattr(selector, "pod_labels", labels)
    host.context().ledger.prepare()

    def of(*ids: str) -> dict[str, str]:
        containers = [Container(id=id_, alive=True, rdt_class="", outside=0) for id_ in ids]
        return labels_of(host.context(), Pod(key="key", state="assigned", containers=containers))

    assert of("broken", "gone", "app", "other") == {"app": "web"}
    assert of("broken", "gone") == of() == {}


@pytest.mark.parametrize("text", ["", "=web", "app in web", "app in (a", "a=b,,c=d", "app<3", "a b"])
def test_invalid_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid requirement"):
        Selector(text)


def test_list_finds_crio_pod_by_labels(host: Host) -> None:
    sandbox = host.bundle(fixture("crio-crun-sandbox-config.json"), "sandbox")
    annotations = fixture("crio-crun-createRuntime-state.json")["annotations"]
    annotations |= {"io.kubernetes.cri-o.ResolvPath": f"{sandbox}/resolv.conf"}
    bundle = host.bundle({"ociVersion": "1.2.1", "linux": {}, "annotations": annotations})
    host.process(100)
    assert host.call(state(annotations=annotations, pid=100, bundle=bundle)).code == 0

    def listed(selector: str) -> int:
        words = ["--config", str(host.config), "list", "-l", selector, "--no-headers"]
        return len(CliRunner().invoke(main, words).stdout.splitlines())

    assert [listed("app=web"), listed("app in (web),tier=backend"), listed("app=db"), listed("!app")] == [1, 1, 0, 0]
