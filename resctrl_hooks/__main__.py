"""`python -m resctrl_hooks`: the same as `resctrl-hook`, where that is not on the PATH."""

from resctrl_hooks.core.cli import main

main(prog_name="resctrl-hook")
