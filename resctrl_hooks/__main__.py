"""`python -m resctrl_hooks` is `resctrl-hook`, for where the command is not on the PATH."""

from resctrl_hooks.cli import main

main(prog_name="resctrl-hook")
