"""`simulate`: its options."""

import re

from click.testing import CliRunner

from resctrl_hooks.core.cli import main


def test_help_of_simulate_has_defaults_and_limits() -> None:
    text = " ".join(CliRunner().invoke(main, ["simulate", "--help"]).stdout.split())
    assert re.findall(r"\[([^]]*=[^]]*)\]", text) == [
        *("default: 32; 1<=x<=65536", "default: 8; 1<=x<=4096", "default: 2; 1<=x<=1024", "default: 1s; 0<=x<=86400"),
        *("0<=x<=65536", "0<=x<=256", "0<=x<=4096", "default: 1; 1<=x<=64"),
    ]
    assert CliRunner().invoke(main, ["simulate", "/nowhere", "--pmg", "2"]).exit_code == 2
