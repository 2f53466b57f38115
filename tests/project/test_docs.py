"""The documentation holds together: pages, links, and settings that `config check` accepts."""

import ast
import re
import textwrap
import tomllib
from pathlib import Path

import houses
import pytest
import yaml

from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.config.schema import json_schema

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
OTHERS = sorted([ROOT / "CONTRIBUTING.md", *(ROOT / "contrib").glob("**/*.md")])
LINKED = [*PAGES, *OTHERS, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[tuple[str, str]]:
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return [(link, anchor) for link, anchor in found if "://" not in link]


def test_links_have_targets_and_the_index_names_every_page() -> None:
    for page in LINKED:
        for link, anchor in links(page):
            target = page.parent / link if link else page
            assert target.exists(), f"{page}: {link}"
            headings = HEADING.findall(target.read_text(encoding="utf-8")) if anchor else ()
            # In lower case, with blanks as dashes, without punctuation.
            there = {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert not anchor or anchor in there, f"{page}: {link}{anchor}"
    index = ROOT / "docs" / "index.md"
    named = {(index.parent / link).resolve() for link, _ in links(index)}
    assert {page.resolve() for page in PAGES} - {index.resolve()} - named == set()


OF_OTHERS = {"metadata", "scrape_configs", "datasources", "providers"}
"""Keys of foreign files."""


@pytest.mark.houses("observe", "placement", "nri", "openshift", "lab")
@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_on_pages_are_valid(page: Path) -> None:
    """Those in blocks, and in the text, such as `memory: {failurePolicy: ignore}` or `monitoring.release: pod`."""
    text = page.read_text(encoding="utf-8")
    blocks = [textwrap.dedent(block) for _, block in FENCED.findall(text)]
    snippets = [one for one in blocks if not OF_OTHERS & (yaml.safe_load(one) or {}).keys()]
    for path, value in re.findall(r"`([A-Za-z.]+): ([^`]+)`", text):
        keys = path.split(".")
        if keys[0] in json_schema()["properties"]:
            snippets.append(": {".join(keys) + f": {value}" + "}" * (len(keys) - 1))
    for snippet in snippets:
        # It is a part of a file, so a remark may concern the missing rest.
        found = check_text(snippet.encode(), "page.yaml").problems
        assert [str(problem) for problem in found if problem.severity != "note"] == [], snippet


PACKAGE = ROOT / "resctrl_hooks"
HOUSES = sorted(path.parent for path in PACKAGE.glob("*/part.py"))
NODE_HALVES = sorted(path.parent for path in PACKAGE.glob("*/node/part.py"))


@pytest.mark.parametrize(
    "folder",
    [*HOUSES, *NODE_HALVES, PACKAGE / "core/node/resctrl"],
    ids=lambda folder: str(folder.relative_to(PACKAGE)),
)
def test_screen_names_every_room(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    rooms = {path.stem for path in folder.glob("[a-z]*") if path.is_dir() or path.suffix == ".py"}
    listed = {name for names in re.findall(r"^    ([a-z_, ]+?)  ", text, re.MULTILINE) for name in names.split(", ")}
    assert listed - rooms == set()
    assert rooms - listed - set(re.findall(r"`([a-z_]+)`", text)) <= {"part"}


def test_paths_in_architecture_exist() -> None:
    text = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8")
    tops = {"core", *houses.ALL, "library", "tests", "contrib", "hooks.d"}
    removed = houses.missing()
    found = {path for path in re.findall(r"`([a-z.]+/[\w./-]*)`", text) if path.partition("/")[0] in tops}
    assert len(found) > 20
    missing = {path for path in found if not (PACKAGE / path).exists() and not (ROOT / path).exists()}
    assert {path for path in missing if not removed & {*path.split("/")}} == {"tests/HOUSE/doctor/"}


@pytest.mark.houses("lab")
def test_tested_kernels_and_pythons_are_those_of_the_guest() -> None:
    page = (ROOT / "docs/tested.md").read_text(encoding="utf-8")
    source = "".join((ROOT / "tests/lab/vm" / name).read_text() for name in ("kernels.py", "pythons.py"))
    kernels = re.findall(r'"([0-9.]+)": "[a-z]+"', source)
    assert f"| kernel | Linux {', '.join(kernels)}, " in page
    hook, command, *_, newest = re.findall(r"\(3, (\d+)\)", source)
    assert f"| Python for the hook | 3.{hook} to 3.{newest} |" in page
    assert f"| Python for the command | 3.{command} to 3.{newest} |" in page


ATTEMPTS = {
    "imitate another runtime": "core/node/container/test_workload.py::test_container_of_unknown_runtime_has_neither",
    "imitate a label": "core/node/container/test_running.py::test_annotation_is_not_a_label_and_hides_none",
    "use a class": "core/node/features/test_groups.py::test_only_allowed_and_existing_classes_are_used_or_suggested",
    "leave the": "core/node/classes/test_defaults.py::test_default_class_stays_whatever_an_author_without_permission",
    "write huge": "core/node/container/test_author_input.py::test_hostile_text_costs_bounded_work_and_only_its_own",
    "request an affinity": "placement/node/test_affinity.py::test_hostile_affinity_costs_bounded_work_and_only_its",
    "get exclusive": "placement/node/test_request.py::test_exclusive_cpus_beyond_the_request_need_a_granted_number",
    "occupy all": "core/node/features/test_groups.py::test_namespace_at_limit_waits_until_one_of_its_pods_ends",
    "start processes": "core/node/watch/test_watcher.py::test_loop_of_execs_spares_other_containers_and_the_processor",
    "reuse a process": "core/node/watch/test_containers.py::test_descendants_of_a_process_with_a_used_id_are_moved",
    "hang an": "observe/slowdown/experiment/test_runs.py::test_watchdog_restores_values_after_each_kill_and_stop_at_a",
    "evade the guard": "observe/node/guard/test_load.py::test_guard_acts_on_a_class_whose_pods_end_all_the_time",
    "open many": "observe/metrics/test_server.py::test_source_with_many_requests_keeps_no_other_source_out",
    "write control": "core/cli/test_all_commands.py::test_each_form_has_the_same_items_and_no_foreign_control",
    "fill the disk": "observe/node/slowdown/test_resident.py::test_unwritable_baselines_stay_in_memory",
}
"""By the start of each attempt on the page, the test that makes it; more tests are beside it."""


@pytest.mark.houses("observe", "placement")
def test_attempts_in_security_have_tests_and_capabilities_are_those_of_the_units() -> None:
    text = (ROOT / "docs/security.md").read_text()
    rows = text.partition("| attempt | result |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert len(rows) == len(ATTEMPTS)
    for row, (start, name) in zip(rows, ATTEMPTS.items(), strict=True):
        path, _, test = name.partition("::")
        assert row.startswith(f"| {start}"), row
        assert f"def {test}" in (ROOT / "tests" / path).read_text(), name
    units = re.findall(r"^\| `(resctrl-hooks-\w+)` \| (.*) \|$", text, re.MULTILINE)
    assert len(units) == 5
    for unit, capabilities in units:
        service = (ROOT / f"contrib/systemd/{unit}.service").read_text()
        assert f"CapabilityBoundingSet={capabilities.strip('`').replace('none', '')}\n" in service


def test_commands_in_results_exist_or_name_their_commit() -> None:
    text = (ROOT / "docs/dev/results.md").read_text(encoding="utf-8")
    found = re.findall(r"(tests/[\w/]+\.py)(`(?: \| |\s+of\s+commit\s+)[0-9a-f]{8})?", text)
    assert len(found) > 20
    assert {path for path, commit in found if not commit and not (ROOT / path).exists()} == set()


def test_layers_in_architecture_are_those_of_the_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {one["containers"][0]: one["layers"] for one in contracts if one["type"] == "layers"}
    text = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8").partition("\n## Layers\n")[2]
    rows = dict(re.findall(r"^\| `?([a-z/_]+)`? \| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE)[1:])
    found = {f"resctrl_hooks.{place.strip('/').replace('/', '.')}": row for place, row in rows.items()}
    order = {place: [[name.strip() for name in re.split(r"[:|]", one)] for one in layers[place]] for place in layers}
    assert set(found) == set(order)
    for place, row in found.items():
        shown = set(re.findall(r"\w+", row))
        kept = [", ".join(name for name in one if name in shown) for one in order[place] if shown & set(one)]
        assert row == "; ".join(kept)
