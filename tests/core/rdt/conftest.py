"""A simulated resctrl of few classes, and the command on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import Host
from hosts.monitored import run


class RdtHost(Host):
    """A host with RDT classes."""

    def rdt(self, *words: str) -> Result:
        """Run `rdt`."""
        return run(self, "rdt", *words)

    def apply(self, **classes: dict[str, Any]) -> dict[str, Any]:
        """Apply these classes alone; return the items of the result by name."""
        self.configure(rdt={"classes": classes})
        done = self.rdt("apply", "--json")
        assert done.exit_code in (0, 1), done.output
        return {item["name"]: item for item in json.loads(done.stdout)["items"]}

    def l3(self, name: str = "") -> str:
        """Return the masks of a class."""
        text = (self.resctrl / name / "schemata").read_text()
        return next(line.strip() for line in text.splitlines() if "L3" in line)

    def mode(self, name: str) -> str:
        """Return the mode of a class."""
        return (self.resctrl / name / "mode").read_text().strip()


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[RdtHost]:
    from resctrl_hooks.lab.simulation import mounted  # noqa: PLC0415 - lab can be missing

    with mounted(tmp_path / "sim", closids=4) as root:
        yield RdtHost(tmp_path / "host", resctrl=Path(root))
