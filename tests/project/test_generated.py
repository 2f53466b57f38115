"""The derived files in this repository are up to date: `nox -s generate` updates them."""

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest
from jsonschema import validate

from project.contributed import REPOSITORY, load
from resctrl_hooks.core.cli.schemas import schemas

HOUSES = ("observe", "placement", "nri", "openshift", "lab")
GENERATOR = load("generate")
FILES: dict[str, Callable[[], bytes]] = GENERATOR.files()


@pytest.mark.parametrize("name", FILES)
def test_generated_file_is_up_to_date(name: str) -> None:
    assert (REPOSITORY / name).read_bytes() == FILES[name](), "run nox -s generate"


def test_picture_of_top_is_a_recorded_document_and_loads_nothing() -> None:
    recorded = load("picture").recorded()
    validate(recorded, schemas()["top"])
    drawn = (REPOSITORY / "docs/top.svg").read_text()
    assert all(item["name"] in drawn for item in recorded["items"] if item["kind"] == "pod")
    assert "url(http" not in drawn


@pytest.mark.parametrize("command, picture", [("nodes", "kubectl-nodes"), ("top", "kubectl-top")])
def test_picture_of_kubectl_shows_the_recorded_document_and_loads_nothing(command: str, picture: str) -> None:
    recorded = json.loads((REPOSITORY / "contrib/kubectl.json").read_text())[command]
    drawn = (REPOSITORY / f"docs/{picture}.svg").read_text()
    assert recorded["items"]
    for item in recorded["items"]:
        assert item.get("pod", item.get("name")) in drawn
    assert "url(http" not in drawn
    assert f"({picture}.svg)" in (REPOSITORY / "docs/kubectl.md").read_text()


def test_removed_files_leave_nothing() -> None:
    assert {f"hooks.d/{path.name}" for path in (REPOSITORY / "hooks.d").iterdir()} <= set(FILES)


def test_man_page_has_no_warnings() -> None:
    man = shutil.which("groff") or shutil.which("mandoc")
    source = FILES["docs/resctrl-hook.8"]().decode()
    assert all(f".SS {name.replace('-', chr(92) + '-')}" in source for name in ("install", "doctor", "config check"))
    if man:
        words = [man, "-man", "-Tutf8", "-ww"] if man.endswith("groff") else [man, "-Tlint", "-Wwarning"]
        done = subprocess.run(words, input=source.encode(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
