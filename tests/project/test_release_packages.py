"""A release's packages: wheel, sdist, the Debian package, also in a clean root, and the RPM spec."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from requirements import debian_root

from project.contributed import REPOSITORY, needed, release
from resctrl_hooks import __version__

HOUSES = ("observe", "placement", "nri", "openshift", "lab")
pytestmark = [pytest.mark.ci, pytest.mark.xdist_group("release")]  # built once
DEPENDENCIES: list[str] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]


def output(*words: str | Path, **options: Any) -> str:
    return str(subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout)


def modules_of(dist: Path) -> set[str]:
    """Return the files of the wheel's package."""
    (wheel,) = dist.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def test_wheel_and_sdist_have_the_whole_package(dist: Path, tmp_path: Path) -> None:
    package = REPOSITORY / "resctrl_hooks"
    modules = {str(path.relative_to(REPOSITORY)) for path in package.rglob("*.py")} | {"resctrl_hooks/py.typed"}
    shipped = modules_of(dist)
    assert modules <= shipped
    assert [name for name in shipped if not name.startswith("resctrl_hooks/") or ".cpython-" in name] == []
    output(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=REPOSITORY)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    more = {"pyproject.toml", "LICENSE", "README.md", "tests/conftest.py", "hooks.d/resctrl-hooks.json"}
    assert modules | more <= names


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    def complete(mode: str, **words: str) -> str:
        environment = {**os.environ, "_RESCTRL_HOOK_COMPLETE": f"{shell}_{mode}", **words}
        program = "import sys; sys.argv[0] = 'resctrl-hook'; from resctrl_hooks.core.cli import main; main()"
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True).stdout

    assert "_RESCTRL_HOOK_COMPLETE" in complete("source")
    place = "ins" if shell == "fish" else "1"
    assert "install" in complete("complete", COMP_WORDS="resctrl-hook ins", COMP_CWORD=place)


def test_demo_installs_its_requirements_without_tools() -> None:
    """As `./dev demo` asks for it."""
    script = re.search(r"NEEDS_OF_DEMO='(.*?)'", (REPOSITORY / "dev").read_text(), re.DOTALL)
    assert script
    words = output(sys.executable, "-c", script[1], cwd=REPOSITORY).split()
    names = {re.split(r"[<>=~]", word)[0] for word in words}
    assert {"click", "pydantic", "mfusepy"} <= names
    assert not {"mypy", "pytest", "pyarrow"} & names


def test_package_is_identical_under_any_umask(
    dist: Path, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wheel,) = dist.glob("*.whl")
    shutil.copy(wheel, tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    before = os.umask(0o077)
    try:
        release().main(tmp_path)
    finally:
        os.umask(before)
    (again,) = tmp_path.glob("*.deb")
    assert again.read_bytes() == package.read_bytes()


def test_bundled_package_runs_without_system_packages(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own packages are links to those that are installed here."""
    site_packages = tmp_path / "site-packages"
    site_packages.mkdir()
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site_packages)
    for one in {str(one._path): one for one in needed("resctrl-hooks")}.values():
        for file in {Path(str(file)).parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            source, target = Path(str(one.locate_file(file))), site_packages / file
            if source.is_dir() and not target.exists():
                shutil.copytree(source, target)
            elif source.is_file():
                shutil.copy(source, target)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("DPKG_DEB_COMPRESSOR_LEVEL", "0")  # its compression would take seconds
    built = release().bundled_package(site_packages, tmp_path)
    fields, minor = output("dpkg-deb", "-f", built), sys.version_info.minor
    assert "Package: resctrl-hooks-bundled\n" in fields
    assert f"Depends: python3 (>= 3.{minor}), python3 (<< 3.{minor + 1})\n" in fields
    output("dpkg-deb", "-x", built, tmp_path / "root")
    environment = tmp_path / "root/opt/venvs/resctrl-hooks"
    python = environment / "bin/python3"
    assert python.readlink() == Path("/usr/bin/python3"), "that of the target"
    script = tmp_path / "root/usr/bin/resctrl-hook"
    assert script.read_text().startswith("#!/opt/venvs/resctrl-hooks/bin/python3\n")
    python.unlink()
    python.symlink_to(os.path.realpath(sys.executable))
    assert __version__ in output(python, "-E", script, "--version", cwd=tmp_path)
    assert "`/opt/venvs/resctrl-hooks/bin/python3` (bundled package)" in (REPOSITORY / "docs/library.md").read_text()
    program = "import sys; from resctrl_hooks import Monitor, extras; print(sys.prefix, extras.remedy('parquet'))"
    answer = output(python, "-E", "-c", program, cwd=tmp_path)
    first = f"{environment} install the extra `parquet` with `apt-get install --no-install-recommends python3-pip && "
    assert answer.startswith(first)
    assert answer.endswith(f"python3 -m pip --python {python} install 'resctrl-hooks[parquet]'`\n")


def test_spec_has_this_version_and_imports_no_module_that_needs_an_extra(dist: Path) -> None:
    spec = (dist / "resctrl-hooks.spec").read_text()
    assert f"Version:        {release().PACKAGE_VERSION}\n" in spec
    assert "@" not in spec.replace("@example.com", "")
    made = set(re.findall(r" > (\S+\.service)\n", spec))
    assert len(made) == 2
    for path in re.findall(r"(?:0644|\|') (\w\S+)", spec):
        assert path in made or (REPOSITORY / path).exists(), path
    (line,) = re.findall(r"^%pyproject_check_import (.*)", spec, re.MULTILINE)
    output(sys.executable, "-c", IMPORT_ALL, *shlex.split(line))


# What the macro does with its options, where only the required libraries are installed.
IMPORT_ALL = """
import fnmatch, importlib, pkgutil, sys
for name in ("httpx", "kr8s", "mfusepy", "opentelemetry", "pyarrow"):
    sys.modules[name] = None
import resctrl_hooks
omitted = [word for word in sys.argv[1:] if word != "-e"]
for name in [module.name for module in pkgutil.walk_packages(resctrl_hooks.__path__, "resctrl_hooks.")]:
    if not any(fnmatch.fnmatchcase(name, pattern) for pattern in omitted):
        importlib.import_module(name)
"""


def test_debian_package_has_requirements_of_wheel(package: Path) -> None:
    version, depends = (output("dpkg-deb", "-f", package, field) for field in ("Version", "Depends"))
    assert version.strip() == f"{release().PACKAGE_VERSION}-1"
    found = re.findall(r"python3-([\w-]+) \(>= ([\d.]+)\)", depends)
    assert {f"{name.replace('yaml', 'pyyaml')}>={least}" for name, least in found} == set(DEPENDENCIES)


def test_debian_package_is_complete_with_correct_sums(dist: Path, package: Path, tmp_path: Path) -> None:
    output("dpkg-deb", "-R", package, tmp_path)
    shipped = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {f"usr/lib/python3/dist-packages/{name}" for name in modules_of(dist)} <= shipped
    assert {"usr/bin/resctrl-hook", "usr/share/man/man8/resctrl-hook.8.gz"} <= shipped
    output("bash", "-n", tmp_path / "usr/share/bash-completion/completions/resctrl-hook")
    completions = {"zsh/vendor-completions/_resctrl-hook", "fish/vendor_completions.d/resctrl-hook.fish"}
    assert {f"usr/share/{name}" for name in completions} <= shipped
    (installer,) = tmp_path.glob("usr/lib/python3/dist-packages/resctrl_hooks-*.dist-info/INSTALLER")
    assert installer.read_text() == "debian\n"
    sources = [path.read_text() for path in (tmp_path / "usr/lib").rglob("*.py")]
    pages = {page for source in sources for page in re.findall(r"; (?:see )?(docs/[a-z-]+\.md)", source)}
    assert pages
    assert {f"usr/share/doc/resctrl-hooks/{page}" for page in pages} <= shipped, "pages that messages name"
    lines = [line.partition("  ") for line in (tmp_path / "DEBIAN/md5sums").read_text().splitlines()]
    sums = {name: digest for digest, _, name in lines}
    assert sums.keys() == {name for name in shipped if not name.startswith("DEBIAN/")}
    for name, digest in sums.items():
        assert hashlib.md5((tmp_path / name).read_bytes()).hexdigest() == digest
    for name in ("classes", "metrics"):
        unit = (tmp_path / f"usr/lib/systemd/system/resctrl-hooks-{name}.service").read_text()
        assert "ExecStart=/usr/bin/resctrl-hook " in unit


# Fedora's macros as far as the spec needs them; Debian has no package of them.
MACROS = {
    "_unitdir": "/usr/lib/systemd/system",
    "pyproject_buildrequires": "true",
    "pyproject_wheel": f"{sys.executable} -m hatchling build -t wheel",
    # -I, or pip takes the project out of the environment that runs this.
    "pyproject_install": f"{sys.executable} -m pip install -qI --no-deps --prefix=/usr --root=%{{buildroot}} dist/*",
    "pyproject_files": "%{_builddir}/files",
    "pyproject_save_files(l)": "find %{buildroot}/usr/lib -type f | sed s,%{buildroot},, >%{pyproject_files}",
    "pyproject_check_import(e:)": f"PYTHONPATH=$(echo %{{buildroot}}/usr/lib/python3*/site-packages) {sys.executable}"
    " -c 'import resctrl_hooks.core.cli'",
    **{f"systemd_{name}()": f": systemd {name}" for name in ("post", "preun", "postun_with_restart")},
}


@pytest.mark.rpm
def test_spec_builds_complete_package(dist: Path, tmp_path: Path) -> None:
    output(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "SOURCES", cwd=REPOSITORY)
    defined = [f"--define={name} {value}" for name, value in {"_topdir": str(tmp_path), **MACROS}.items()]
    command = ["rpmbuild", "-bb", "--nodeps", *defined, str(dist / "resctrl-hooks.spec")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    (built,) = tmp_path.glob("RPMS/noarch/*.rpm")
    named = output("rpm", "-qp", "--queryformat=%{NAME} %{VERSION} %{ARCH}", built)
    assert named == f"resctrl-hooks {release().PACKAGE_VERSION} noarch"
    shipped = set(output("rpm", "-qp", "--list", built).splitlines())
    assert modules_of(dist) <= {path.partition("/site-packages/")[2] for path in shipped}
    units = {f"/usr/lib/systemd/system/resctrl-hooks-{name}.service" for name in ("classes", "metrics")}
    assert {"/usr/bin/resctrl-hook", *units} <= shipped
    assert "resctrl-hook install || :" in output("rpm", "-qp", "--scripts", built)


@pytest.fixture
def inside(package: Path, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Run a shell's line in a clean Debian that has the package's file at /package.deb; nothing of it is kept."""
    for name in ("upper", "work", "root"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={debian_root()},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(tmp_path / "root")], check=True)
    try:
        (tmp_path / "root/package.deb").write_bytes(package.read_bytes())

        def run(line: str) -> str:
            command = ["unshare", "--mount", "chroot", str(tmp_path / "root"), "/bin/sh", "-ec", line]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        yield run
    finally:
        subprocess.run(["umount", str(tmp_path / "root")], check=True)


@pytest.mark.debian
def test_package_is_installed_upgraded_and_removed(inside: Callable[[str], str]) -> None:
    inside("dpkg -i /package.deb")
    assert inside("resctrl-hook --version") == f"resctrl-hook, version {__version__}\n"
    assert inside("dpkg --verify resctrl-hooks; ls /usr/local/libexec") == "", "nothing is installed unasked"
    inside("resctrl-hook install --runtime podman")
    hook = json.loads(inside("cat /usr/share/containers/oci/hooks.d/resctrl-hooks.json"))
    assert hook["hook"]["path"]
    assert f"installed {__version__} for podman" in inside("dpkg -i /package.deb"), "an upgrade goes on"
    # resctrl is missing, and the command reports it
    inside("resctrl-hook metrics --format prometheus >/dev/null || [ $? = 1 ]")
    inside("dpkg -r resctrl-hooks")
    assert inside("find / -xdev -path /proc -prune -o -name '*resctrl*' -print").splitlines() in (
        [],
        ["/run/resctrl-hooks"],
    )
