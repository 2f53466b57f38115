"""Label selectors: each form, and invalid ones."""

import pytest
from click.testing import CliRunner
from conftest import Host, fixture, state

from resctrl_hooks.cli import main
from resctrl_hooks.inventory.selector import Selector

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
