"""The parts of a release besides wheel and sdist, and their checksums. `nox -s release` runs it.

Debian packages, RPM spec, notes, the Helm chart, the Krew plugin, the MachineConfig and the JSON Schemas of the
commands' output.

    python contrib/release.py DIST [SITE_PACKAGES [REPORT]]

DIST contains the wheel and the SBOM. SITE_PACKAGES contains the wheel with its dependencies, for a second Debian
package on systems with older Python packages (Debian 12). REPORT is pip's, with the hashes of the archives in the SBOM;
times are the commit's, so the same commit gives the same package.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from email.utils import formatdate
from pathlib import Path
from types import MappingProxyType

from chart import packaged, semantic
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from generate import released
from krew import plugin
from man import man_page

from resctrl_hooks import __version__
from resctrl_hooks.core.cli import main as cli

REPOSITORY = Path(__file__).parents[1]
PACKAGES = REPOSITORY / "contrib/packages"
MODULES = "usr/lib/python3/dist-packages"
DOCUMENTS = "usr/share/doc/resctrl-hooks"
UNITS = ("resctrl-hooks-classes.service", "resctrl-hooks-metrics.service")
_EXECUTABLE = 0o755
_COMMAND = "#!{python}\nfrom resctrl_hooks.core.cli import main\n\nmain()\n"
BUNDLE = "opt/venvs/resctrl-hooks"
"""The virtual environment of the package with its Python packages inside, where dh-virtualenv has such environments."""
_ENVIRONMENT = "home = /usr/bin\ninclude-system-site-packages = false\n"
_NOT_BUNDLED = ("__pycache__", "pip", "pip-*", "setuptools", "setuptools-*", "_distutils_hack", "distutils-*", "bin")
_COMPLETIONS: dict[str, type[ShellComplete]] = {
    "usr/share/bash-completion/completions/resctrl-hook": BashComplete,
    "usr/share/zsh/vendor-completions/_resctrl-hook": ZshComplete,
    "usr/share/fish/vendor_completions.d/resctrl-hook.fish": FishComplete,
}
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


def package_version(version: str) -> str:
    """Return a version as dpkg and rpm sort it: a development version is older than its release."""
    return version.replace(".dev", "~dev")


PACKAGE_VERSION = package_version(__version__)


def maintainer() -> str:
    """Return the packages' maintainer from DEBFULLNAME and DEBEMAIL, as Debian's own tools do; else a placeholder."""
    name = os.environ.get("DEBFULLNAME", "resctrl-hooks maintainers (placeholder)")
    return f"{name} <{os.environ.get('DEBEMAIL', 'resctrl-hooks@example.com')}>"


def homepage() -> str | None:
    """Return the project's address from pyproject.toml."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    found: str | None = project.get("urls", {}).get("Homepage")
    return found


def missing_contact() -> list[str]:
    """Return what a published release needs and this one does not have."""
    missing = [] if homepage() else ["pyproject.toml has no [project.urls] Homepage"]
    return missing + [
        f"{name} is not set" for name in ("DEBFULLNAME", "DEBEMAIL", "RELEASE_URL") if name not in os.environ
    ]


class NoNotesError(Exception):
    """The changelog has no entry for a version."""


def notes(version: str, changelog: str) -> str:
    """Return the changelog's notes on a version, or the unreleased ones if it has no entry.

    Raises:
        NoNotesError: neither exists.
    """
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for name in (version, "Unreleased"):
        for section in sections:
            head, _, text = section.partition("\n")
            if head.strip("[] ").split()[0].strip("[]") == name and text.strip():
                return f"# resctrl-hooks {version}\n\n{text.strip()}\n"
    raise NoNotesError(f"CHANGELOG.md says nothing of {version}")


def debian_package(wheel: Path, folder: Path) -> Path:
    """Build the Debian package of a wheel into a folder; ``SOURCE_DATE_EPOCH`` is the time of all its files."""

    def stage(root: Path) -> None:
        modules = root / MODULES
        modules.mkdir(parents=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(modules)  # noqa: S202  # our own wheel
        _own(modules)
        _write(root / "usr/bin/resctrl-hook", _COMMAND.format(python="/usr/bin/python3").encode(), _EXECUTABLE)

    return _build(folder / f"resctrl-hooks_{PACKAGE_VERSION}-1_all.deb", stage, (PACKAGES / "control").read_text())


def bundled_package(site_packages: Path, folder: Path) -> Path:
    """Build the Debian package that includes its Python packages, for this architecture and version of Python."""
    machine = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    here, above = (f"3.{sys.version_info.minor + more}" for more in (0, 1))

    def stage(root: Path) -> None:
        modules = root / BUNDLE / f"lib/python{here}/site-packages"
        shutil.copytree(site_packages, modules, ignore=shutil.ignore_patterns(*_NOT_BUNDLED))
        _own(modules)
        _write(root / BUNDLE / "pyvenv.cfg", _ENVIRONMENT.encode())
        (root / BUNDLE / "bin").mkdir()
        (root / BUNDLE / "bin/python3").symlink_to("/usr/bin/python3")
        _write(root / "usr/bin/resctrl-hook", _COMMAND.format(python=f"/{BUNDLE}/bin/python3").encode(), _EXECUTABLE)

    control = (PACKAGES / "control").read_text()
    control = re.sub(
        r"^Depends: .*", f"Depends: python3 (>= {here}), python3 (<< {above})", control, flags=re.MULTILINE
    )
    control = control.replace("Architecture: all", f"Architecture: {machine}").replace(
        "Package: resctrl-hooks\n",
        "Package: resctrl-hooks-bundled\nProvides: resctrl-hooks\nConflicts: resctrl-hooks\nReplaces: resctrl-hooks\n",
    )
    target = folder / f"resctrl-hooks-bundled_{PACKAGE_VERSION}-1~python{here}_{machine}.deb"
    return _build(target, stage, control.replace("{version}-1", f"{{version}}-1~python{here}"))


def _own(modules: Path) -> None:
    """Name dpkg as the installer of the project in a folder, so that pip leaves its files, which dpkg owns."""
    (metadata,) = modules.glob("resctrl_hooks-*.dist-info")
    (metadata / "RECORD").unlink()
    _write(metadata / "INSTALLER", b"debian\n")


def _build(target: Path, stage: Callable[[Path], None], control: str) -> Path:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        root.mkdir()
        stage(root)
        _stage(root)
        _describe(root, control)
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return target


def _stage(root: Path) -> None:
    """Write the files that every package has, at their paths on a host."""
    for path, kind in _COMPLETIONS.items():
        _write(root / path, kind(cli, {}, "resctrl-hook", "_RESCTRL_HOOK_COMPLETE").source().encode())
    _write(root / "usr/share/man/man8/resctrl-hook.8.gz", gzip.compress(man_page(), mtime=0))
    for name in UNITS:
        unit = (REPOSITORY / "contrib/systemd" / name).read_text().replace("/usr/local/bin/", "/usr/bin/")
        _write(root / f"usr/lib/systemd/system/{name}", unit.encode())
    for folder in ("grafana", "prometheus"):
        shutil.copytree(REPOSITORY / "contrib" / folder, root / DOCUMENTS / "examples" / folder)
    shutil.copytree(REPOSITORY / "docs", root / DOCUMENTS / "docs", ignore=shutil.ignore_patterns("dev", "*.8"))
    _write(root / DOCUMENTS / "copyright", _COPYRIGHT.encode())
    log = (REPOSITORY / "CHANGELOG.md").read_bytes()
    _write(root / DOCUMENTS / "changelog.gz", gzip.compress(log, mtime=0))
    when = formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    entry = _DEBIAN_CHANGELOG.format(version=PACKAGE_VERSION, maintainer=maintainer(), when=when).encode()
    _write(root / DOCUMENTS / "changelog.Debian.gz", gzip.compress(entry, mtime=0))


def _describe(root: Path, control: str) -> None:
    """Write dpkg's control files."""
    paths = [path for path in root.rglob("*") if not path.is_symlink()]
    files = sorted(path for path in paths if path.is_file())
    for path in paths:
        path.chmod(_EXECUTABLE if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    size = -(-sum(path.stat().st_size for path in files) // 1024)
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)  # noqa: S324  # dpkg's own check
    package = control.split()[1]
    if found := homepage():
        control = control.replace("Section: ", f"Homepage: {found}\nSection: ")
    control = control.format(version=PACKAGE_VERSION, kilobytes=size, maintainer=maintainer())
    _write(root / "DEBIAN/control", control.encode())
    _write(root / "DEBIAN/md5sums", sums.encode())
    for script in ("postinst", "prerm"):
        text = (PACKAGES / script).read_text().replace("-p resctrl-hooks\n", f"-p {package}\n")
        _write(root / "DEBIAN" / script, text.encode(), _EXECUTABLE)


def downloaded(report: str) -> dict[str, str]:
    """Return the SHA-256 of each archive that pip installed, by name, from its ``--report``."""
    found = {}
    for one in json.loads(report)["install"]:
        hashes = one["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" in hashes:
            found[_normal(one["metadata"]["name"])] = hashes["sha256"]
    return found


def complete_sbom(text: str, hashes: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the SBOM with the facts that its generator lacks: the project's version, and each archive's SHA-256."""
    sbom = json.loads(text)
    own = sbom["metadata"]["component"]
    own |= {"version": __version__, "purl": f"pkg:pypi/resctrl-hooks@{__version__}"}
    for component in (own, *sbom["components"]):
        digest = hashes.get(_normal(component["name"]))
        if digest:
            component["hashes"] = [{"alg": "SHA-256", "content": digest}]
    return json.dumps(sbom, indent=2) + "\n"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def chart_package(folder: Path) -> Path:
    """Write the Helm chart as `helm package` names it; ``SOURCE_DATE_EPOCH`` is the time of all its files."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid = int(os.environ["SOURCE_DATE_EPOCH"]), 0, 0
        member.uname = member.gname = ""
        return member

    target = folder / f"resctrl-hooks-{semantic(__version__)}.tgz"
    with tempfile.TemporaryDirectory() as temporary, gzip.GzipFile(target, "wb", mtime=0) as whole:
        chart = packaged(Path(temporary))
        with tarfile.open(fileobj=whole, mode="w") as archive:
            archive.add(chart, chart.name, filter=plain)
    return target


def checksums(folder: Path) -> str:
    """Return checksums in the format of `sha256sum --check`."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def main(folder: Path, site_packages: Path | None = None, report: Path | None = None) -> None:
    """Write everything into a folder that has the wheel; ``report`` is pip's, for the packages in the SBOM."""
    os.umask(0o022)  # dpkg-deb refuses folders that others cannot read
    (wheel,) = folder.glob(f"resctrl_hooks-{__version__}-*.whl")
    sys.stdout.write(f"{debian_package(wheel, folder).name}\n")
    if site_packages is not None:
        sys.stdout.write(f"{bundled_package(site_packages, folder).name}\n")
    for sbom in folder.glob("*.cdx.json"):
        hashes = downloaded(report.read_text()) if report else {}
        hashes["resctrl-hooks"] = hashlib.sha256(wheel.read_bytes()).hexdigest()
        sbom.write_text(complete_sbom(sbom.read_text(), hashes))
    spec = (PACKAGES / "resctrl-hooks.spec").read_text()
    marks = {"@VERSION@": PACKAGE_VERSION, "@UPSTREAM@": __version__, "@MAINTAINER@": maintainer()}
    if found := homepage():
        spec = spec.replace("License: ", f"URL:            {found}\nLicense: ")
    for mark, value in marks.items():
        spec = spec.replace(mark, value)
    (folder / "resctrl-hooks.spec").write_text(spec)
    (folder / "RELEASE_NOTES.md").write_text(notes(__version__, (REPOSITORY / "CHANGELOG.md").read_text()))
    sys.stdout.write(f"{chart_package(folder).name}\n")
    for path in plugin(wheel, __version__, homepage(), folder):
        sys.stdout.write(f"{path.name}\n")
    for name, make in released(__version__).items():
        _write(folder / name, make())
    for text in missing_contact():
        sys.stderr.write(f"release: warning: {text}; set it before you publish\n")
    (folder / "SHA256SUMS").write_text(checksums(folder))


if __name__ == "__main__":
    os.environ.setdefault(
        "SOURCE_DATE_EPOCH",
        subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.strip(),
    )
    main(*map(Path, sys.argv[1:]))
