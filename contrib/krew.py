"""The Krew plugin of a release: an archive with the wheel and a script that installs it, and the manifest of both."""

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

from chart import semantic

FOLDER = Path(__file__).parent / "krew"
PROGRAM = "kubectl-resctrl"
PLACEHOLDER = "https://example.com/resctrl-hooks"


def plugin(wheel: Path, version: str, homepage: str | None, folder: Path) -> list[Path]:
    """Write the archive and the manifest into a folder; return their paths.

    The archive's address is below ``RELEASE_URL``. ``SOURCE_DATE_EPOCH`` is the time of all files in it.
    """
    archive = folder / f"{PROGRAM}-{version}.tar.gz"
    script = (FOLDER / PROGRAM).read_text().replace("@VERSION@", version).encode()
    files = {
        PROGRAM: (script, 0o755),
        wheel.name: (wheel.read_bytes(), 0o644),
        "LICENSE": ((FOLDER.parents[1] / "LICENSE").read_bytes(), 0o644),
    }
    with gzip.GzipFile(archive, "wb", mtime=0) as whole, tarfile.open(fileobj=whole, mode="w") as packed:
        for name, (data, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(data), mode, int(os.environ["SOURCE_DATE_EPOCH"])
            packed.addfile(member, io.BytesIO(data))
    marks = {
        "@SEMANTIC@": semantic(version),
        "@HOMEPAGE@": homepage or PLACEHOLDER,
        "@URI@": f"{os.environ.get('RELEASE_URL', PLACEHOLDER)}/{archive.name}",
        "@SHA256@": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    text = (FOLDER / "resctrl.yaml").read_text()
    for mark, value in marks.items():
        text = text.replace(mark, value)
    manifest = folder / "krew-resctrl.yaml"
    manifest.write_text(text)
    return [archive, manifest]
