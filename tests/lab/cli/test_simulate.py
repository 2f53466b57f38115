"""`simulate`: its options."""

import re

from click.testing import CliRunner

from resctrl_hooks.core.cli import main


def test_help_of_simulate_has_defaults_and_limits() -> None:
    text = " ".join(CliRunner().invoke(main, ["simulate", "--help"]).stdout.split())
    assert re.findall(r"\[([^]]* to [^]]*|default: [^]]*s)\]", text) == [
        *("default: 32; 1 to 65536", "default: 8; 1 to 4096", "default: 2; 1 to 1024", "default: 1s"),
        *("0 to 65536", "0 to 256", "0 to 4096", "default: 1; 1 to 64"),
    ]
    assert CliRunner().invoke(main, ["simulate", "/nowhere", "--pmg", "2"]).exit_code == 2
