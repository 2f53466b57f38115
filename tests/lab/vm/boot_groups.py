"""A pytest plugin that groups tests by the boot of the guest that they need, from their markers.

On the machine (`--boots-to FILE --collect-only`) it writes the boots that the chosen tests need; in a guest (`--boot
JSON`, `--only FILE`) it deselects the tests of other boots. The markers are `@pytest.mark.guest(rmids=4)` and
`@pytest.mark.systemd`, which is `guest(init="systemd")`; the command line sets what a test does not name.
"""

import json
import time

import pytest

_STARTED = time.monotonic()
_FAILED: dict[str, None] = {}  # the ids of tests that failed or could not be set up or cleaned up, in their order


def needs_of(item: pytest.Item) -> dict[str, object]:
    """Return the boot requirements in the test's markers; the marker nearest to the test wins."""
    needs: dict[str, object] = {}
    for marker in reversed(list(item.iter_markers())):
        if marker.name == "systemd":
            needs["init"] = "systemd"
        elif marker.name == "guest":
            needs.update(marker.kwargs)
    return needs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--boots-to", help="write the boots that the collected tests need to this file, as JSON")
    parser.addoption("--seconds", type=float, default=float("inf"), help="skip what would begin later than this")
    parser.addoption("--failed-to", help="write the ids of the tests that failed to this file, a line each")
    parser.addoption("--only", action="append", help="of what is chosen, collect only this file; can be given again")
    parser.addoption("--boot", help="run only the tests that need just this of a boot, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; ignore files that are not selected, because importing them is slow under emulation."""
    if only := config.getoption("--only"):
        named = [word for word in config.args if word.partition("::")[0] in only]
        config.args[:] = [*named, *(path for path in only if not any(word.startswith(path) for word in named))]
    config.addinivalue_line("markers", "guest(**needs): what it needs of a boot: fields of Boot in vm/machine.py")
    config.addinivalue_line("markers", "systemd: needs a guest whose init is systemd")


@pytest.hookimpl(trylast=True)  # after -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--boot")
    if wanted is None:
        return
    others = [item for item in items if needs_of(item) != json.loads(wanted)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if no time is left: emulation is slow, by an amount that depends on the machine."""
    if time.monotonic() - _STARTED > item.config.getoption("--seconds"):
        pytest.skip("no time left")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _FAILED[report.nodeid] = None


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("--failed-to"):
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(f"{name}\n" for name in _FAILED)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the boots in the order in which the tests need them, with the numbers of tests by file."""
    if path := session.config.getoption("--boots-to"):
        boots: dict[str, dict[str, int]] = {}
        for item in session.items:
            files = boots.setdefault(json.dumps(needs_of(item), sort_keys=True), {})
            name = item.nodeid.partition("::")[0]
            files[name] = files.get(name, 0) + 1
        with open(path, "w", encoding="utf-8") as out:
            json.dump([{"needs": json.loads(needs), "files": files} for needs, files in boots.items()], out)
