"""Programs of this host, asked without an input and for a limited time."""

import subprocess


def ask(*command: str, seconds: float) -> subprocess.CompletedProcess[str] | str:
    """Run a program; return its status and output, or the reason why it did not run to its end."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def output(*command: str, seconds: float) -> str:
    """Return a program's output; empty if it did not run to its end."""
    done = ask(*command, seconds=seconds)
    return "" if isinstance(done, str) else done.stdout


def failure(*command: str, seconds: float) -> str:
    """Run a program; return its failure in one line, or an empty string."""
    done = ask(*command, seconds=seconds)
    if isinstance(done, str):
        return done
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1] if done.returncode else ""
