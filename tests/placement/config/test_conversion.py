"""Files of nri-plugins and CRI Resource Manager as placement sections: `config balloons`, and where it is offered."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from conftest import FIXTURES
from core.config.judged import FOREIGN, check, problems
from golden import Golden, read

from resctrl_hooks.core.cli import main

FILES = read(Path(__file__).parent / "policies.txt")
CONVERTED = (
    "BalloonsPolicy",
    "TopologyAwarePolicy",
    "CRI Resource Manager's ConfigMap",
    "CRI Resource Manager",
    "balloons' chart",
    "balloons' values",
    "a policy's keys",
)


def test_each_file_becomes_a_valid_section_or_an_error_at_its_line(tmp_path: Path, golden: Golden) -> None:
    others = {name: text for name, text in FOREIGN.items() if name not in CONVERTED}
    plugins = {path.stem: path.read_text() for path in FIXTURES.glob("nri-*.yaml")}
    path = tmp_path / "policy.yaml"
    for name, text in (FILES | others | plugins).items():
        path.write_text(text)
        done = CliRunner().invoke(main, ["config", "balloons", str(path)])
        assert bool(done.stdout) == (done.exit_code == 0)
        if done.stdout:
            assert yaml.safe_load(done.stdout).keys() == {"placement"}
            assert check(done.stdout).errors == []
        golden(f"exit code {done.exit_code}\n{done.stdout}{done.stderr}", name)
    path.unlink()
    done = CliRunner().invoke(main, ["config", "balloons", str(path)])
    assert (done.exit_code, f"cannot read {path}: No such file" in done.stderr) == (1, True)


@pytest.mark.parametrize("name", FOREIGN)
def test_conversion_is_offered_for_policies(name: str) -> None:
    offer = "; `resctrl-hook config balloons FILE` prints its `placement` section"
    assert problems(FOREIGN[name])[0].endswith(offer) is (name in CONVERTED)


def test_placement_with_a_key_of_a_policy_is_a_configuration() -> None:
    (found,) = problems("placement: {enabled: true}\npinCPU: true\n")
    assert "this is a" not in found
