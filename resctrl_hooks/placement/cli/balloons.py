"""`resctrl-hook config balloons`: the ``placement`` section for a configuration of another placement policy."""

import sys
from pathlib import Path

import click

from resctrl_hooks.core.cli.errors import INVALID, FailedError, print_problems
from resctrl_hooks.core.config.document import DocumentError, format_document, parse_document
from resctrl_hooks.placement.config.balloons_file import Conversion


@click.command(short_help="Convert a configuration of NRI's balloons or topology-aware policy.")
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> None:
    """Print the `placement` section for a configuration of the balloons or the topology-aware policy.

    FILE is a BalloonsPolicy, a TopologyAwarePolicy, Helm's values, or CRI Resource Manager's file or ConfigMap. Keys
    and values without a counterpart are named on stderr. Another file is an error.
    """
    try:
        converted = Conversion(parse_document(file.read_bytes(), str(file)))
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror}") from error
    except DocumentError as error:
        right = f"; {error.right}" if error.right else ""
        raise FailedError(f"{file}:{error.line}: {error}{right}", INVALID) from error
    text = format_document({"placement": converted.placement})
    if converted.placement:
        converted.check(text.encode())
    print_problems(converted.problems)
    if any(problem.severity == "error" for problem in converted.problems):
        sys.exit(INVALID)
    click.echo(text)
