"""The parts of a release: notes, Debian package, RPM spec, SBOM, checksums; the package in a clean root."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from typing import Any

import pytest
from requirements import debian_root

from resctrl_hooks import __version__

REPOSITORY = Path(__file__).parents[2]
DEPENDENCIES: list[str] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
OF_DEBIAN = {"python3-yaml": "pyyaml"}
"""Debian's names that aren't python3- and the distribution's."""
CHANGELOG = """# Changelog

## Unreleased

### Added

- something new

## 0.2.0 - 2026-11-22

### Fixed

- a fault

## 0.1.0

- the first
"""


def load(name: str) -> Any:
    sys.path.insert(0, str(REPOSITORY / "contrib"))  # its imports are in the same folder
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / f"contrib/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RELEASE, VERSION, CHART = load("release"), load("version"), load("chart")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as `nox -s release` leaves it, but for the components of its SBOM."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        RELEASE.main(folder)
    return folder


@pytest.fixture(scope="module")
def package(dist: Path) -> Path:
    (found,) = dist.glob("*.deb")
    return found


def dpkg_deb(*words: str) -> str:
    return subprocess.run(["dpkg-deb", *words], check=True, capture_output=True, text=True).stdout


# Notes, checksums, SBOM


def test_notes_are_those_of_the_version() -> None:
    assert RELEASE.notes("0.2.0", CHANGELOG) == "# resctrl-hooks 0.2.0\n\n### Fixed\n\n- a fault\n"
    assert RELEASE.notes("0.1.0", CHANGELOG).endswith("\n- the first\n")
    assert "something new" in RELEASE.notes("0.3.0", CHANGELOG)


def test_version_without_notes_is_not_released() -> None:
    with pytest.raises(RELEASE.NoNotesError, match=r"nothing of 9\.9\.9"):
        RELEASE.notes("9.9.9", "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- the first\n")


def test_this_version_has_notes(dist: Path) -> None:
    text = (dist / "RELEASE_NOTES.md").read_text()
    assert text.startswith(f"# resctrl-hooks {__version__}\n")
    assert text.count("\n- ") > 3


def test_checksums_cover_every_file(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert {line.split("  ")[1] for line in lines} == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, check=True, capture_output=True)


# Versions


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A Git repository of two commits that has a development version."""
    (tmp_path / "resctrl_hooks").mkdir()
    (tmp_path / "contrib/daemonset").mkdir(parents=True)
    (tmp_path / "resctrl_hooks/__init__.py").write_text('__version__ = "0.3.0.dev0"\n')
    (tmp_path / "contrib/daemonset/metrics.yaml").write_text("image: resctrl-hooks:0.3.0.dev0\n")
    git(tmp_path, "init", "--quiet")
    for _ in range(2):
        git(tmp_path, "commit", "--quiet", "--allow-empty", "--message=a change")
    return tmp_path


def git(tree: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "tag.gpgSign=false")
    subprocess.run(["git", *identity, *words], cwd=tree, check=True, capture_output=True)


def test_development_version_has_the_commits_since_the_last_release(tree: Path) -> None:
    assert VERSION.numbered("0.3.0.dev0", VERSION.commits_since_tag(tree)) == "0.3.0.dev2"
    git(tree, "tag", "v0.2.0")
    git(tree, "tag", "another")
    git(tree, "commit", "--quiet", "--allow-empty", "--message=a change")
    assert VERSION.numbered("0.3.0.dev0", VERSION.commits_since_tag(tree)) == "0.3.0.dev1"
    assert VERSION.numbered("0.3.0", 1) == "0.3.0"


def test_version_is_set_in_each_file_that_contains_it(tree: Path) -> None:
    VERSION.set_version(tree, "0.3.0")
    assert VERSION.version_of(tree) == "0.3.0"
    assert (tree / "contrib/daemonset/metrics.yaml").read_text() == "image: resctrl-hooks:0.3.0\n"


def test_uncommitted_changes_are_noticed(tree: Path) -> None:
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message=all")
    assert not VERSION.has_changes(tree)
    VERSION.set_version(tree, "0.3.0")
    assert VERSION.has_changes(tree)


def test_package_of_a_development_version_is_older_than_its_release() -> None:
    assert RELEASE.package_version("0.3.0") == "0.3.0"
    older = ["dpkg", "--compare-versions", RELEASE.package_version("0.3.0.dev12"), "lt", "0.3.0"]
    subprocess.run(older, check=True)


def test_chart_of_a_development_version_has_a_semantic_version() -> None:
    assert CHART.semantic("0.3.0") == "0.3.0"
    assert CHART.semantic("0.3.0.dev12") == "0.3.0-dev.12"


def test_release_without_an_address_or_a_maintainer_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBFULLNAME", "A Person")
    monkeypatch.delenv("DEBEMAIL", raising=False)
    assert "DEBEMAIL is not set" in RELEASE.missing_contact()
    assert "DEBFULLNAME is not set" not in RELEASE.missing_contact()


def needed(name: str) -> Iterator[PathDistribution]:
    """Yield an installed distribution, and those that it needs, without extras."""
    found = distribution(name)
    assert isinstance(found, PathDistribution)
    yield found
    for requirement in found.requires or ():
        if ";" not in requirement:
            yield from needed(re.split(r"[^\w.-]", requirement)[0])


def test_sbom_is_valid_and_names_requirements(tmp_path: Path) -> None:
    """`nox -s release` makes it of an environment that has the wheel alone; this is such a one, made of links."""
    pytest.importorskip("cyclonedx")
    venv.create(tmp_path / "alone", symlinks=True)
    (packages,) = tmp_path.glob("alone/lib/python*/site-packages")
    for one in {str(one._path): one for one in needed("resctrl-hooks")}:
        (packages / Path(one).name).symlink_to(one)
    target = tmp_path / "sbom.json"
    about = ["--pyproject", "pyproject.toml", "--mc-type", "application", "--sv", "1.6", "-o", str(target)]
    command = [sys.executable, "-m", "cyclonedx_py", "environment", *about, str(tmp_path / "alone/bin/python")]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    text = RELEASE.complete_sbom(target.read_text(), {"resctrl-hooks": "a" * 64, "prometheus-client": "b" * 64})
    # In a separate process: its address checks take seconds to import.
    validate = "import sys; from cyclonedx.schema import SchemaVersion; "
    validate += "from cyclonedx.validation.json import JsonStrictValidator as Validator; "
    validate += "sys.exit(str(Validator(SchemaVersion.V1_6).validate_str(sys.stdin.read()) or '') or None)"
    subprocess.run([sys.executable, "-c", validate], input=text, text=True, check=True)
    sbom = json.loads(text)
    assert sbom["metadata"]["component"]["purl"] == f"pkg:pypi/resctrl-hooks@{__version__}"
    components = [sbom["metadata"]["component"], *sbom["components"]]
    hashes = {one["hashes"][0]["content"]: one["name"].replace("_", "-") for one in components if "hashes" in one}
    assert hashes == {"a" * 64: "resctrl-hooks", "b" * 64: "prometheus-client"}
    names = {component["name"].lower().replace("_", "-") for component in sbom["components"]}
    assert {re.split(r"[<>=]", dependency)[0] for dependency in DEPENDENCIES} <= names


def test_hashes_match_archives_that_pip_installed() -> None:
    """The wheel itself is a file; its own hash is the release's."""
    archive = {"archive_info": {"hashes": {"sha256": "b" * 64}}}
    report = {
        "install": [
            {"download_info": archive, "metadata": {"name": "prometheus_client"}},
            {"download_info": {"dir_info": {}}, "metadata": {"name": "other"}},
        ]
    }
    assert RELEASE.downloaded(json.dumps(report)) == {"prometheus-client": "b" * 64}


# The packages


def test_packages_have_completions_for_three_shells(package: Path, tmp_path: Path) -> None:
    dpkg_deb("-x", str(package), str(tmp_path))
    bash = tmp_path / "usr/share/bash-completion/completions/resctrl-hook"
    subprocess.run(["bash", "-n", str(bash)], check=True)
    assert (tmp_path / "usr/share/zsh/vendor-completions/_resctrl-hook").read_text().startswith("#compdef resctrl-hook")
    assert (tmp_path / "usr/share/fish/vendor_completions.d/resctrl-hook.fish").exists()


def test_package_is_identical_under_any_umask(dist: Path, package: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    shutil.copy(wheel, tmp_path)
    before = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
            RELEASE.main(tmp_path)
    finally:
        os.umask(before)
    (again,) = tmp_path.glob("*.deb")
    assert again.read_bytes() == package.read_bytes()


def test_bundled_package_runs_without_system_packages(dist: Path, tmp_path: Path) -> None:
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        built = RELEASE.bundled_package(site_packages, tmp_path)
    fields = dpkg_deb("-f", str(built))
    assert "Package: resctrl-hooks-bundled\n" in fields
    assert f"Depends: python3 (>= 3.{sys.version_info.minor}), python3 (<< 3.{sys.version_info.minor + 1})\n" in fields
    dpkg_deb("-x", str(built), str(tmp_path / "root"))
    command = [sys.executable, "-S", "-E", str(tmp_path / "root/usr/bin/resctrl-hook"), "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert __version__ in done.stdout


def test_spec_has_this_version(dist: Path) -> None:
    spec = (dist / "resctrl-hooks.spec").read_text()
    assert f"Version:        {RELEASE.PACKAGE_VERSION}\n" in spec
    assert "@" not in spec.replace("@example.com", "")
    for path in re.findall(r"(?:0644|\|') (\w\S+)", spec.replace("metrics.service > ", "")):
        assert path == "metrics.service" or (REPOSITORY / path).exists(), path


def test_packages_name_their_maintainer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBFULLNAME", "A Person")
    monkeypatch.setenv("DEBEMAIL", "person@example.org")
    assert RELEASE.maintainer() == "A Person <person@example.org>"
    monkeypatch.delenv("DEBEMAIL")
    monkeypatch.delenv("DEBFULLNAME")
    assert "placeholder" in RELEASE.maintainer()


def test_debian_package_has_requirements_of_wheel(package: Path) -> None:
    assert dpkg_deb("-f", str(package), "Version").strip() == f"{RELEASE.PACKAGE_VERSION}-1"
    found = {}
    for name, version in re.findall(r"(python3-[\w-]+) \(>= ([\d.]+)\)", dpkg_deb("-f", str(package), "Depends")):
        found[OF_DEBIAN.get(name, name.removeprefix("python3-"))] = version
    assert {f"{name}>={version}" for name, version in found.items()} == set(DEPENDENCIES)


def test_debian_package_is_complete_with_correct_sums(dist: Path, package: Path, tmp_path: Path) -> None:
    dpkg_deb("-R", str(package), str(tmp_path))
    (wheel,) = dist.glob("*.whl")
    modules = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("resctrl_hooks/")}
    shipped = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {f"usr/lib/python3/dist-packages/{name}" for name in modules} <= shipped
    assert {"usr/bin/resctrl-hook", "usr/share/man/man8/resctrl-hook.8.gz"} <= shipped
    lines = [line.partition("  ") for line in (tmp_path / "DEBIAN/md5sums").read_text().splitlines()]
    sums = {name: digest for digest, _, name in lines}
    assert sums.keys() == {name for name in shipped if not name.startswith("DEBIAN/")}
    for name, digest in sums.items():
        assert hashlib.md5((tmp_path / name).read_bytes()).hexdigest() == digest
    unit = (tmp_path / "usr/lib/systemd/system/resctrl-hooks-metrics.service").read_text()
    assert "ExecStart=/usr/bin/resctrl-hook " in unit


def test_debian_package_is_reproducible(
    dist: Path, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    (wheel,) = dist.glob("*.whl")
    assert RELEASE.debian_package(wheel, tmp_path).read_bytes() == package.read_bytes()


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
    " -c 'import resctrl_hooks.cli'",
    **{f"systemd_{name}()": f": systemd {name}" for name in ("post", "preun", "postun_with_restart")},
}


@pytest.mark.rpm
def test_spec_builds_complete_package(dist: Path, tmp_path: Path) -> None:
    sources = tmp_path / "SOURCES"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(sources)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    defined = [f"--define={name} {value}" for name, value in {"_topdir": str(tmp_path), **MACROS}.items()]
    command = ["rpmbuild", "-bb", "--nodeps", *defined, str(dist / "resctrl-hooks.spec")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    (built,) = tmp_path.glob("RPMS/noarch/*.rpm")

    def ask(*words: str) -> str:
        return subprocess.run(["rpm", "-qp", *words, str(built)], capture_output=True, text=True, check=True).stdout

    assert ask("--queryformat=%{NAME} %{VERSION} %{ARCH}") == f"resctrl-hooks {RELEASE.PACKAGE_VERSION} noarch"
    (wheel,) = dist.glob("*.whl")
    modules = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("resctrl_hooks/")}
    shipped = set(ask("--list").splitlines())
    assert modules <= {path.partition("/site-packages/")[2] for path in shipped}
    assert {"/usr/bin/resctrl-hook", "/usr/lib/systemd/system/resctrl-hooks-metrics.service"} <= shipped
    assert "resctrl-hook install || :" in ask("--scripts")


# In a clean Debian


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


LEFT = "find / -xdev -path /proc -prune -o -name '*resctrl*' -print"


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
    assert inside(LEFT).splitlines() in ([], ["/run/resctrl-hooks"])


@pytest.mark.debian
def test_container_is_monitored_by_installed_hook(inside: Callable[[str], str]) -> None:
    """The hook that the package installs, called as a runtime does; a plain tree stands for resctrl."""
    inside("dpkg -i /package.deb; mkdir -p /sys/fs/resctrl/mon_groups /bundle; touch /sys/fs/resctrl/tasks")
    inside("resctrl-hook install --runtime podman")
    command = """
        set -- $(python3 -c 'import json, shlex
hook = json.load(open("/usr/share/containers/oci/hooks.d/resctrl-hooks.json"))["hook"]
open("/call", "w").write(shlex.join(hook["args"]))')
        mount -t proc proc /proc
        echo '{"ociVersion": "1.1.0", "root": {"path": "/"}}' >/bundle/config.json
        sleep 60 & pid=$!
        id=$(printf 'a%.0s' $(seq 64))
        state() { printf '{"ociVersion":"1.1.0","id":"%s","status":"%s","pid":%s,"bundle":"/bundle"}' $id $1 $2; }
        state creating $pid | sh /call
        ls /sys/fs/resctrl/mon_groups
        grep -c . /sys/fs/resctrl/mon_groups/$id/tasks
        resctrl-hook metrics | grep -c 'resctrl_hooks_runs_total{stage="createRuntime"} 1' || true
        kill $pid; wait $pid || true
        state stopped 0 | sh /call
        rm -f /sys/fs/resctrl/mon_groups/$id/tasks; ls /sys/fs/resctrl/mon_groups
    """
    assert inside(command).split() == ["a" * 64, "1", "1"]
