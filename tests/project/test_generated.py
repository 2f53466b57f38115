"""The derived files in this repository are up to date: `nox -s generate` updates them."""

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest
from jsonschema import validate

from project.contributed import REFERENCE, REPOSITORY, load
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.node.feature_table import FEATURES, KEYS
from resctrl_hooks.core.node.reconcile.report import _KINDS
from resctrl_hooks.core.node.settings import DEFAULTS

HOUSES = ("observe", "placement", "nri", "openshift", "lab")
GENERATOR = load("generate")
FILES: dict[str, Callable[[], bytes]] = GENERATOR.files()


def test_generated_files_are_up_to_date_and_no_other_is_in_their_folder() -> None:
    assert [name for name in FILES if (REPOSITORY / name).read_bytes() != FILES[name]()] == [], "run nox -s generate"
    assert {f"hooks.d/{path.name}" for path in (REPOSITORY / "hooks.d").iterdir()} <= set(FILES)


@pytest.mark.parametrize("command, picture", [("nodes", "kubectl-nodes"), ("top", "kubectl-top"), ("", "top")])
def test_picture_shows_the_recorded_document_and_loads_nothing(command: str, picture: str) -> None:
    drawn = (REPOSITORY / f"docs/{picture}.svg").read_text()
    if command:
        recorded = json.loads((REPOSITORY / "contrib/kubectl.json").read_text())[command]
        assert f"({picture}.svg)" in (REPOSITORY / "docs/kubectl.md").read_text()
    else:
        recorded = load("picture").recorded()
        validate(recorded, schemas()["top"])
    names = [item.get("pod", item.get("name")) for item in recorded["items"] if item.get("kind", "pod") == "pod"]
    assert names
    assert [name for name in names if name not in drawn] == []
    assert "url(http" not in drawn


def test_man_page_has_no_warnings_and_explains_the_events_of_reconcile() -> None:
    man = shutil.which("groff") or shutil.which("mandoc")
    source = FILES["docs/resctrl-hook.8"]().decode()
    assert all(f".SS {name.replace('-', chr(92) + '-')}" in source for name in ("install", "doctor", "config check"))
    assert {kind for kind, (key, _, _) in _KINDS.items() if not key} == load("man").RECONCILED.keys()
    if man:
        words = [man, "-man", "-Tutf8", "-ww"] if man.endswith("groff") else [man, "-Tlint", "-Wwarning"]
        done = subprocess.run(words, input=source.encode(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_every_setting_is_in_the_reference_with_a_description() -> None:
    text = REFERENCE.in_page((REPOSITORY / "docs/configuration-reference.md").read_text(), REFERENCE.reference())
    keys = {key for section in json_schema()["$defs"].values() for key in section["properties"]}
    assert {"throttleReadBps", "floor", "cpuMax"} <= keys
    assert [name for name in (*DEFAULTS, *KEYS, *FEATURES, *keys) if f"`{name}`" not in text] == []
    release = '- `release` (`pod`/`last-container`, default `"pod"`): Release a pod'
    assert all(line in text for line in (release, "- `name` (text, required): ", "### `blockio.classes`\n"))
    section = text.partition("### `blockio`\n")[2].partition("###")[0]
    assert section.endswith("- `enabled`, `allow`, `defaults`: as in `rdt`.\n\n")
    assert text.count("The class of containers that request none. `allow` does not apply to it.") == 1
    items = [line for line in text.replace("\n  ", " ").splitlines() if line.startswith("- `")]
    assert [item for item in items if item.endswith("):")] == []
    with pytest.raises(ValueError, match="no part between"):
        REFERENCE.in_page("# nothing", "")
