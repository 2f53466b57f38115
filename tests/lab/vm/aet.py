"""The kernel with energy counters, built once from Debian's unmodified source with `aet.config`."""

import contextlib
import os
import shutil
from collections.abc import Iterator

import cache
import debian
from cache import say

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = os.path.join(HERE, "aet.config")
PACKAGES = ("linux-source", "gcc", "libc6-dev", "make", "flex", "bison", "bc", "libelf-dev", "perl-base", "xz-utils")
IMAGE = "bzImage"
BUILD = """
set -eu
apt-get -q update
apt-get -q install -y --no-install-recommends PACKAGES
mkdir /build
cd /build
tar -x --strip-components=1 -f /usr/src/linux-source-*.tar.xz
make KCONFIG_ALLCONFIG=/aet.config allnoconfig
missing=$(grep -v '^#\\|=n$\\|^$' /aet.config | grep -vxFf .config || :)
[ -z "$missing" ] || { echo "this kernel would lack $missing"; exit 1; }
nice make -j"$(nproc)" bzImage
cp arch/x86/boot/bzImage /bzImage
""".replace("PACKAGES", " ".join(PACKAGES))
MOUNTED = """
set -eu
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/merged"
mount -t proc proc "$2/merged/proc"
exec chroot "$2/merged" /usr/bin/env DEBIAN_FRONTEND=noninteractive INITRD=No LC_ALL=C.UTF-8 sh /build.sh
"""


def _make(guest: str, target: str) -> None:
    debian.need_builder()
    log = os.path.join(cache.folder(), "aet.log")
    with open(log, "w", encoding="utf-8"):
        pass
    debian.install_tools(log)
    say(f"building a kernel with energy counters (six minutes, once); log: {log}")
    # The guest's own tree has compiler and headers of the same Debian, and stays as it is: the packages go on top.
    work = os.path.join(target, "tree")
    for name in ("upper/etc/apt/apt.conf.d", "work", "merged"):
        os.makedirs(os.path.join(work, name))
    upper = os.path.join(work, "upper")
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        if os.path.exists(path):
            shutil.copy(path, upper + path)
    with open(os.path.join(upper, "etc/apt/apt.conf.d/99machine"), "w", encoding="utf-8") as out:
        out.write(debian.apt_settings())
    with open(os.path.join(upper, "build.sh"), "w", encoding="utf-8") as out:
        out.write(BUILD)
    shutil.copy(CONFIG, os.path.join(upper, "aet.config"))
    debian.logged(debian.isolated(["sh", "-c", MOUNTED, "sh", os.path.join(guest, "root"), work]), log)
    shutil.copy(os.path.join(upper, IMAGE), os.path.join(target, IMAGE))
    cache.remove(work)


def stamp() -> str:
    """Return the kernel's stamp: it depends on its configuration and the guest's Debian, not on Python packages."""
    return cache.stamp_of([CONFIG, os.path.join(HERE, "guest.py")], BUILD)


@contextlib.contextmanager
def image(guest: str) -> Iterator[str]:
    """Yield the kernel's path; build it first if it is missing."""
    with cache.part("aet", stamp(), lambda target: _make(guest, target)) as made:
        yield os.path.join(made, IMAGE)
