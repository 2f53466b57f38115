"""Debian's containerd, driven through its CRI as the kubelet does it, and the NRI plugin's process."""

import importlib
import json
import os
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel.installed import Installed
from kernel.runtimes import Podman, run, wait_until

CGROUPS = "/sys/fs/cgroup"
SOCKET = "/run/containerd/containerd.sock"
NRI = "/var/run/nri/nri.sock"
CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")  # those that the kubelet hands down to pods
SLEEP = ("/bin/sleep", "100000")
IMAGE, PAUSE = "localhost/busybox:cri", "localhost/pause:cri"
PATIENCE = 300  # seconds for one call: only so that a hang ends with a message
HOST_NETWORK = 2  # `NODE` of the CRI's NamespaceMode
RUNTIME = """
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}]
      runtime_type = "io.containerd.runc.v2"
      {extra}
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}.options]
        BinaryName = "{binary}"
        SystemdCgroup = {systemd}
"""
CONFIG = f"""\
version = 3
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "native"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = "runc"
{{runtimes}}
[plugins.'io.containerd.nri.v1.nri']
  plugin_registration_timeout = "120s"
  plugin_request_timeout = "{{request}}"
"""
"""Emulation is ten times slower than the hardware for which NRI's limits were chosen."""


class Containerd:
    """A containerd of the test's own, with its state where it always is."""

    def __init__(self, folder: str, *, systemd: bool = False) -> None:
        self.folder, self.systemd = folder, systemd
        self._config = os.path.join(folder, "containerd.toml")
        self._hook, self._log = Path(folder, "hook"), os.path.join(folder, "containerd.log")
        self.set_hook([])
        self._write_hooked_specification()
        self._process: subprocess.Popen[bytes] | None = None
        self._grpc: Any = importlib.import_module("grpc")
        self.api: Any = importlib.import_module("cri_api_pb2")
        self._stubs: Any = importlib.import_module("cri_api_pb2_grpc")
        self._pods: list[Pod] = []

    def set_hook(self, command: list[str]) -> None:
        """Set the hook of containers of the runtime handler `hooked`; none by default."""
        self._hook.write_text(f"#!/bin/sh\n{'exec ' + shlex.join(command) if command else 'exec cat >/dev/null'}\n")
        self._hook.chmod(0o755)

    def _write_hooked_specification(self) -> None:
        """Write the base specification of the handler `hooked`: containerd's own default, and a hook."""
        specification = json.loads(run(["ctr", "oci", "spec"]))
        hook = {"path": str(self._hook), "args": ["hook"], "env": ["PATH=/usr/bin:/bin"], "timeout": 60}
        specification["hooks"] = {stage: [hook] for stage in ("createRuntime", "poststop")}
        Path(self.folder, "hooked.json").write_text(json.dumps(specification))

    def start(self, request: str = "60s") -> None:
        """Start it, and wait until it serves the CRI; it waits so long for an NRI plugin (its default is 2 s)."""
        hooked = f'base_runtime_spec = "{self.folder}/hooked.json"'
        runtimes = "".join(
            RUNTIME.format(name=name, binary=binary, extra=extra, systemd=str(self.systemd).lower())
            for name, binary, extra in (("runc", "runc", ""), ("crun", "crun", ""), ("hooked", "runc", hooked))
        )
        Path(self._config).write_text(CONFIG.format(runtimes=runtimes, request=request))
        with open(self._log, "ab") as log:
            words = ["containerd", "--config", self._config, "--log-level", "info"]
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        channel = self._grpc.insecure_channel(f"unix://{SOCKET}")
        self.runtime: Any = self._stubs.RuntimeServiceStub(channel)
        self.images: Any = self._stubs.ImageServiceStub(channel)
        wait_until(self._serves, "containerd serves the CRI")

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"containerd ended: {self.said()[-3000:]}"
        try:
            self.call("Version")
            self.images.ListImages(self.api.ListImagesRequest(), timeout=PATIENCE)
        except self._grpc.RpcError:
            return False
        return os.path.exists(NRI)

    def begin(self, name: str, **fields: Any) -> Any:
        """Begin a call of the CRI's RuntimeService, whose `result` or `exception` waits for its end."""
        return getattr(self.runtime, name).future(getattr(self.api, f"{name}Request")(**fields), timeout=PATIENCE)

    def call(self, name: str, **fields: Any) -> Any:
        return self.begin(name, **fields).result()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop it; its containers go on."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE)

    def restart(self, request: str = "60s") -> None:
        self.stop()
        self.start(request)

    def said(self) -> str:
        with open(self._log, encoding="utf-8", errors="replace") as source:
            return source.read()

    def import_images(self, rootfs: str) -> None:
        engine = Podman("crun", "cgroupfs")
        for number, (name, command) in enumerate(((IMAGE, '["/bin/sh"]'), (PAUSE, '["/bin/sleep", "1000000"]'))):
            path = os.path.join(self.folder, f"image{number}.tar")
            engine.import_image(rootfs, name, f"--change=CMD {command}")
            engine.command("save", "--quiet", f"--output={path}", name)
            run(["ctr", "-n", "k8s.io", "images", "import", "--local", "--snapshotter", "native", path])
            request = self.api.ImageStatusRequest(image=self.api.ImageSpec(image=name))
            wait_until(
                lambda request=request: self.images.ImageStatus(request, timeout=PATIENCE).HasField("image"),
                f"the CRI knows {name}",
            )

    def pod(self, name: str, *, runtime: str = "runc", **options: Any) -> "Pod":
        self._pods.append(Pod(self, name, runtime, **options))
        return self._pods[-1]

    def clean(self) -> None:
        while self._pods:
            self._pods.pop().remove()


class Pod:
    """A pod, as the kubelet asks for it, in a cgroup that outlives its containers."""

    def __init__(
        self, containerd: Containerd, name: str, runtime: str, *, annotations: dict[str, str] | None = None
    ) -> None:
        self._call, self._api = containerd.call, containerd.api
        self.name, self.uid = name, str(uuid.uuid4())
        self.logs = os.path.join(containerd.folder, "logs", self.uid)
        os.makedirs(self.logs)
        if containerd.systemd:
            parent = f"kubepods-besteffort-pod{self.uid.replace('-', '_')}.slice"
            self.cgroup = f"{CGROUPS}/kubepods.slice/kubepods-besteffort.slice/{parent}"
        else:
            parent = f"/kubepods/besteffort/pod{self.uid}"
            self.cgroup = CGROUPS + parent
            for end in ("", "/besteffort", f"/besteffort/pod{self.uid}"):
                folder = Path(f"{CGROUPS}/kubepods{end}")
                folder.mkdir(parents=True, exist_ok=True)
                known = (folder / "cgroup.controllers").read_text().split()
                (folder / "cgroup.subtree_control").write_text(
                    " ".join(f"+{one}" for one in CONTROLLERS if one in known)
                )
        network = self._api.NamespaceOption(network=HOST_NETWORK)
        security = self._api.LinuxSandboxSecurityContext(namespace_options=network)
        labels = {
            f"io.kubernetes.pod.{key}": text for key, text in (("name", name), ("namespace", "shop"), ("uid", self.uid))
        }
        self._config = self._api.PodSandboxConfig(
            metadata=self._api.PodSandboxMetadata(name=name, uid=self.uid, namespace="shop", attempt=0),
            log_directory=self.logs,
            labels={**labels, "app": "web"},
            annotations=annotations or {},
            linux=self._api.LinuxPodSandboxConfig(cgroup_parent=parent, security_context=security),
        )
        made = self._call("RunPodSandbox", config=self._config, runtime_handler=runtime)
        self.id: str = made.pod_sandbox_id
        self.containers: list[str] = []

    def create(self, name: str, command: Sequence[str] = SLEEP) -> str:
        """Create a container; its id."""
        config = self._api.ContainerConfig(
            metadata=self._api.ContainerMetadata(name=name, attempt=0),
            image=self._api.ImageSpec(image=IMAGE),
            command=command,
            log_path=f"{name}.log",
            labels={"io.kubernetes.container.name": name},
            linux=self._api.LinuxContainerConfig(),
        )
        made = self._call("CreateContainer", pod_sandbox_id=self.id, config=config, sandbox_config=self._config)
        self.containers.append(made.container_id)
        return self.containers[-1]

    def start(self, container: str) -> None:
        self._call("StartContainer", container_id=container)

    def run(self, name: str, command: Sequence[str] = SLEEP) -> str:
        """Create and start a container; its id."""
        made = self.create(name, command)
        self.start(made)
        return made

    def said(self, name: str) -> str:
        """Return a container's output after its end, without the time, stream and letter of containerd's log."""
        container = self.containers[-1]

        def has_ended() -> bool:
            status = self._call("ContainerStatus", container_id=container).status
            return bool(status.state == self._api.CONTAINER_EXITED)

        wait_until(has_ended, f"{name} ends")
        with open(os.path.join(self.logs, f"{name}.log"), encoding="utf-8") as source:
            return "".join(line.split(" ", 3)[3] for line in source)

    def pid(self, container: str) -> int:
        return int(self._info(container)["pid"])

    def specification(self, container: str) -> dict[str, Any]:
        return dict(self._info(container)["runtimeSpec"])

    def _info(self, container: str) -> dict[str, Any]:
        return dict(json.loads(self._call("ContainerStatus", container_id=container, verbose=True).info["info"]))

    def execute(self, container: str, command: list[str]) -> str:
        """Run a command in a container, as the kubelet does for an exec probe; return its output."""
        answer = self._call("ExecSync", container_id=container, cmd=command, timeout=PATIENCE)
        assert not answer.exit_code, answer.stderr
        said: str = answer.stdout.decode()
        return said

    def stop(self, container: str) -> None:
        """Stop a container at once."""
        self._call("StopContainer", container_id=container, timeout=0)

    def remove_container(self, container: str) -> None:
        """Remove a container, stopped or not."""
        self._call("RemoveContainer", container_id=container)
        self.containers.remove(container)

    def end(self) -> None:
        """Stop and remove the sandbox with all containers; the kubelet removes the cgroup later."""
        self._call("StopPodSandbox", pod_sandbox_id=self.id)
        self._call("RemovePodSandbox", pod_sandbox_id=self.id)
        self.id = ""

    def remove(self) -> None:
        """End it if that has not been done, and remove its cgroup."""
        if self.id:
            self.end()
        deadline = time.monotonic() + PATIENCE
        while os.path.isdir(self.cgroup) and time.monotonic() < deadline:
            try:
                os.rmdir(self.cgroup)
            except OSError:
                time.sleep(0.1)


class Plugin(Installed):
    served: subprocess.Popen[bytes] | None = None

    def start(self) -> "Plugin":  # type: ignore[override]
        """Start it and wait until it has adopted the running containers."""
        before = self.said().count("Synchronize: ")
        self.served = subprocess.Popen(self.command("nri", "--socket", NRI))
        wait_until(lambda: self.said().count("Synchronize: ") > before, "the plugin is synchronised")
        return self

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.served is not None
        self.served.send_signal(number)
        self.served.wait(60)
        self.served = None

    def status(self) -> dict[str, Any]:
        return dict(json.loads((self.state / "nri.json").read_text()))
