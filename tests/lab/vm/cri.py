"""The CRI as the guest's tests speak it: Python stubs of the api.proto that Debian's golang-k8s-cri-api-dev brings.

They are generated when the guest is built, so that no generated code lies in this project.
"""

import glob
import os

import debian

PACKAGE = "golang-k8s-cri-api-dev"
"""Only its one file is wanted, so it is unpacked rather than installed: it depends on half of Go's libraries."""
PROTO = "usr/share/gocode/src/k8s.io/cri-api/pkg/apis/runtime/v1/api.proto"
EXTRA = "cri"
"""The project's extra with what generates and uses the stubs."""
MODULE = "cri_api"
_UNPACKED = "/var/tmp/cri"


def download(root: str, log: str) -> None:
    """Fetch the package's file into the tree, while that has its package lists."""
    fetch = f"mkdir {_UNPACKED} && cd {_UNPACKED} && apt-get -q download {PACKAGE} && dpkg-deb -x {PACKAGE}_*.deb ."
    debian.in_root(root, ["sh", "-c", fetch], log)


def generate(root: str, python: str, log: str) -> None:
    """Make the modules `cri_api_pb2` and `cri_api_pb2_grpc` in the virtual environment whose interpreter is given."""
    site = glob.glob(f"{root}{os.path.dirname(os.path.dirname(python))}/lib/python3.*/site-packages")[0]
    inside = site.removeprefix(root)
    os.rename(f"{root}{_UNPACKED}/{PROTO}", f"{root}{_UNPACKED}/{MODULE}.proto")
    outputs = [f"--python_out={inside}", f"--grpc_python_out={inside}"]
    protoc = [python, "-m", "grpc_tools.protoc", f"-I{_UNPACKED}", *outputs, f"{_UNPACKED}/{MODULE}.proto"]
    debian.in_root(root, protoc, log)
    debian.in_root(root, ["rm", "-r", _UNPACKED], log)
