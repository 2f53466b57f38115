"""A root file system without an image: the host's own /usr, read-only, in an otherwise empty folder."""

import os

_EMPTY_FOLDERS = ("proc", "dev", "sys", "etc", "run", "tmp")
_HOST_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64")


def make_rootfs(folder: str) -> list[str]:
    """Create an empty root file system with the host's links in it; return the host folders to bind-mount."""
    binds = []
    for name in _EMPTY_FOLDERS:
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    for name in _HOST_FOLDERS:
        host, own = f"/{name}", f"{folder}/{name}"
        if os.path.islink(host):
            os.symlink(os.readlink(host), own)
        elif os.path.isdir(host):
            os.makedirs(own)
            binds.append(host)
    return binds
