"""What a release has beside wheel and sdist: Debian package, RPM spec, notes, checksums. `nox -s release` runs it.

    python contrib/release.py DIST

DIST has the wheel and the SBOM already. From the same commit comes the same package again: its times are the commit's.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from email.utils import formatdate
from pathlib import Path

from man import man_page

from resctrl_hooks import __version__

REPOSITORY = Path(__file__).parents[1]
PACKAGES = REPOSITORY / "contrib/packages"
MODULES = "usr/lib/python3/dist-packages"
DOCUMENTS = "usr/share/doc/resctrl-hooks"
UNIT = "resctrl-hooks-metrics.service"
_EXECUTABLE = 0o755
_COMMAND = "#!/usr/bin/python3\nfrom resctrl_hooks.cli import main\n\nmain()\n"
_COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: resctrl-hooks

Files: *
Copyright: 2026 resctrl-hooks contributors
License: Apache-2.0
 On Debian systems the license is in /usr/share/common-licenses/Apache-2.0.
"""


_DEBIAN_CHANGELOG = """resctrl-hooks ({version}-1) unstable; urgency=medium

  * Release {version}: see changelog.gz.

 -- {maintainer}  {when}
"""


def maintainer() -> str:
    """Who answers for the packages, as Debian's own tools are told: DEBFULLNAME and DEBEMAIL; else a placeholder."""
    name = os.environ.get("DEBFULLNAME", "resctrl-hooks maintainers (placeholder)")
    return f"{name} <{os.environ.get('DEBEMAIL', 'resctrl-hooks@example.com')}>"


class NoNotesError(Exception):
    """The changelog has nothing about a version."""


def notes(version: str, changelog: str) -> str:
    """What the changelog says of a version; of what is unreleased, where the version isn't there yet.

    Raises:
        NoNotesError: it says nothing of either.
    """
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for name in (version, "Unreleased"):
        for section in sections:
            head, _, text = section.partition("\n")
            if head.strip("[] ").split()[0].strip("[]") == name and text.strip():
                return f"# resctrl-hooks {version}\n\n{text.strip()}\n"
    raise NoNotesError(f"CHANGELOG.md says nothing of {version}")


def debian_package(wheel: Path, folder: Path) -> Path:
    """Builds the Debian package of a wheel into a folder; ``SOURCE_DATE_EPOCH`` is the time of all that is in it."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        _stage(wheel, root)
        _describe(root)
        target = folder / f"resctrl-hooks_{__version__}-1_all.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return target


def _stage(wheel: Path, root: Path) -> None:
    """The files as they lie on a host."""
    modules = root / MODULES
    modules.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(modules)
    for record in modules.glob("*.dist-info/RECORD"):
        record.unlink()  # dpkg knows whose files these are
    _write(root / "usr/bin/resctrl-hook", _COMMAND.encode(), _EXECUTABLE)
    _write(root / "usr/share/man/man8/resctrl-hook.8.gz", gzip.compress(man_page(), mtime=0))
    unit = (REPOSITORY / "contrib/systemd" / UNIT).read_text().replace("/usr/local/bin/", "/usr/bin/")
    _write(root / f"usr/lib/systemd/system/{UNIT}", unit.encode())
    for folder in ("grafana", "prometheus"):
        shutil.copytree(REPOSITORY / "contrib" / folder, root / DOCUMENTS / "examples" / folder)
    _write(root / DOCUMENTS / "copyright", _COPYRIGHT.encode())
    log = (REPOSITORY / "CHANGELOG.md").read_bytes()
    _write(root / DOCUMENTS / "changelog.gz", gzip.compress(log, mtime=0))
    when = formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    entry = _DEBIAN_CHANGELOG.format(version=__version__, maintainer=maintainer(), when=when).encode()
    _write(root / DOCUMENTS / "changelog.Debian.gz", gzip.compress(entry, mtime=0))


def _describe(root: Path) -> None:
    """What dpkg wants to know."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for path in root.rglob("*"):
        path.chmod(_EXECUTABLE if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    size = -(-sum(path.stat().st_size for path in files) // 1024)
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)  # noqa: S324  # dpkg's own check
    control = (PACKAGES / "control").read_text().format(version=__version__, kilobytes=size, maintainer=maintainer())
    _write(root / "DEBIAN/control", control.encode())
    _write(root / "DEBIAN/md5sums", sums.encode())
    for script in ("postinst", "prerm"):
        _write(root / "DEBIAN" / script, (PACKAGES / script).read_bytes(), _EXECUTABLE)


def complete_sbom(text: str) -> str:
    """The SBOM with what its generator can't know: which version of the project this is."""
    sbom = json.loads(text)
    sbom["metadata"]["component"] |= {"version": __version__, "purl": f"pkg:pypi/resctrl-hooks@{__version__}"}
    return json.dumps(sbom, indent=2) + "\n"


def checksums(folder: Path) -> str:
    """As `sha256sum --check` takes them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def main(folder: Path) -> None:
    """Writes all of it into a folder that has the wheel."""
    (wheel,) = folder.glob(f"resctrl_hooks-{__version__}-*.whl")
    sys.stdout.write(f"{debian_package(wheel, folder).name}\n")
    for sbom in folder.glob("*.cdx.json"):
        sbom.write_text(complete_sbom(sbom.read_text()))
    spec = (PACKAGES / "resctrl-hooks.spec").read_text()
    for mark, value in (("@VERSION@", __version__), ("@MAINTAINER@", maintainer())):
        spec = spec.replace(mark, value)
    (folder / "resctrl-hooks.spec").write_text(spec)
    (folder / "RELEASE_NOTES.md").write_text(notes(__version__, (REPOSITORY / "CHANGELOG.md").read_text()))
    (folder / "SHA256SUMS").write_text(checksums(folder))


if __name__ == "__main__":
    os.environ.setdefault(
        "SOURCE_DATE_EPOCH",
        subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.strip(),
    )
    main(Path(sys.argv[1]))
