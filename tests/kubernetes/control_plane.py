"""A Kubernetes control plane of processes on the loopback interface, for one test session or by hand.

`python -m tests.kubernetes.control_plane FOLDER [controllers] [scheduler] [kwok]` prints the KUBECONFIG to use and runs
until it is stopped. Users and components sign in with client certificates of an authority made at the start. kwok
plays the kubelets: it sets nodes and pods ready, and runs no container.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

READY_SECONDS = 120.0
ADMIN = "admin"
CONTROLLERS = (
    *("serviceaccount", "namespace", "garbage-collector", "pod-garbage-collector", "disruption"),
    *("deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob", "resourcequota"),
    *("node-lifecycle", "taint-eviction", "root-ca-certificate-publisher", "persistentvolumeclaim-protection"),
)
"""The controllers that tests see something of. Without them no PodDisruptionBudget has a status."""


class ControlPlane:
    """etcd and the API server, and those of `parts` (controllers, scheduler, kwok) that are asked for. `flags` are more
    arguments of the API server."""

    def __init__(self, programs: Path, folder: Path, parts: Sequence[str] = (), flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self._programs = programs
        self._parts = frozenset(parts)
        self._flags = flags
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments: dict[str, Sequence[str]] = {}
        self._token = secrets.token_urlsafe(24)
        etcd, peer, port = _free_ports(3)
        self._etcd, self._peer, self._port = f"https://127.0.0.1:{etcd}", f"https://127.0.0.1:{peer}", port
        self.url = f"https://127.0.0.1:{port}"

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator."""
        return self.folder / f"{ADMIN}.kubeconfig"

    def start(self) -> None:
        """Start all parts; returns when the API server is ready."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write_credentials()
        self._run("etcd", *self._etcd_arguments())
        self._run("kube-apiserver", *self._server_arguments())
        self.wait_ready()
        if "controllers" in self._parts:
            self._run("kube-controller-manager", *self._controller_arguments())
        if "scheduler" in self._parts:
            self._run("kube-scheduler", f"--config={self._scheduler_configuration()}", "--secure-port=0")
        if "kwok" in self._parts:
            stages = self._programs / "stages.yaml"
            flags = ("--manage-all-nodes=true", f"--config={stages}", "--node-lease-duration-seconds=40")
            self._run("kwok", f"--kubeconfig={self.kubeconfig}", *flags)

    def kill(self, program: str) -> None:
        """End a program at once, as a crash does."""
        process = self._running.pop(program)
        process.kill()
        process.wait()

    def restart(self, program: str) -> None:
        """Start a killed program with the arguments that it had. In the main thread: the program ends with the thread
        that has started it."""
        self._run(program, *self._arguments[program])

    @contextmanager
    def etcd_restored_after(self) -> Iterator[None]:
        """Whatever is written inside is lost, as after a restore of etcd from a backup: afterwards etcd has the state
        of the beginning, and the API server is restarting."""
        backup, data = self.folder / "etcd.backup", self.folder / "etcd"
        self._running["etcd"].send_signal(signal.SIGSTOP)  # a copy of files that nothing writes to
        shutil.copytree(data, backup)
        self._running["etcd"].send_signal(signal.SIGCONT)
        yield
        for program in ("kube-apiserver", "etcd"):
            self.kill(program)
        shutil.rmtree(data)
        backup.rename(data)
        for program in ("etcd", "kube-apiserver"):
            self.restart(program)

    def stop(self) -> None:
        for name, process in reversed(self._running.items()):
            process.send_signal(signal.SIGTERM if name == "etcd" else signal.SIGKILL)
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._running.items()}

    def wait_ready(self) -> None:
        """Raises TimeoutError, or RuntimeError if a program ended."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        request = urllib.request.Request(  # noqa: S310 - https, see `url`
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self._token}"}
        )
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}: {self._last_lines(name)}")
            with suppress(OSError):
                if opener.open(request, timeout=2).status == 200:
                    return
            time.sleep(0.05)
        raise TimeoutError(f"the API server is not ready: {self._last_lines('kube-apiserver')}")

    def kubeconfig_of(self, user: str, token: str) -> Path:
        """Writes the configuration of a user with a bearer token."""
        return self._kubeconfig(user, {"token": token})

    def _run(self, program: str, *arguments: str) -> None:
        self._arguments[program] = arguments
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        with (self.folder / f"{program}.log").open("ab") as log:
            self._running[program] = subprocess.Popen(
                # No function before exec: in a fork of this process, threads of gRPC go on, and abort it.
                ["setpriv", "--pdeathsig", "KILL", "--", str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment,
            )

    def _last_lines(self, program: str) -> str:
        return (self.folder / f"{program}.log").read_text(errors="replace")[-1500:]

    def _write_credentials(self) -> None:
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(self.folder / "ca.crt")
        self._issue(authority, "server", authority.issue_cert("127.0.0.1", "localhost", common_name="kube-apiserver"))
        users = {
            ADMIN: ("admin", "system:masters"),
            "controllers": ("system:kube-controller-manager", None),
            "scheduler": ("system:kube-scheduler", None),
        }
        for file, (user, group) in users.items():
            issued = authority.issue_cert("client.test", common_name=user, organization_name=group)
            self._issue(authority, file, issued)
            certificate, key = self.folder / f"{file}.crt", self.folder / f"{file}.key"
            self._kubeconfig(file, {"client-certificate": str(certificate), "client-key": str(key)})
        (self.folder / "tokens.csv").write_text(f'{self._token},probe,probe,"system:masters"\n')
        signer = ec.generate_private_key(ec.SECP256R1())
        private = signer.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (self.folder / "accounts.key").write_bytes(private)
        (self.folder / "accounts.pub").write_bytes(public)  # the API server refuses the private key of this form

    def _issue(self, authority: trustme.CA, file: str, issued: trustme.LeafCert) -> None:
        issued.private_key_pem.write_to_path(self.folder / f"{file}.key")
        for number, part in enumerate(issued.cert_chain_pems):
            part.write_to_path(self.folder / f"{file}.crt", append=number > 0)

    def _kubeconfig(self, file: str, user: dict[str, str]) -> Path:
        cluster = {"server": self.url, "certificate-authority": str(self.folder / "ca.crt")}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "me"}}],
        }
        path = self.folder / f"{file}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    def _etcd_arguments(self) -> Sequence[str]:
        f, client, peer = self.folder, self._etcd, self._peer
        tls = (f"--cert-file={f}/server.crt", f"--key-file={f}/server.key", f"--trusted-ca-file={f}/ca.crt")
        return (
            *("--name=one", f"--data-dir={f}/etcd", "--unsafe-no-fsync", "--log-level=warn"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=one={peer}"),
            *(*tls, "--client-cert-auth"),
            *(*(flag.replace("--", "--peer-", 1) for flag in tls), "--peer-client-cert-auth"),
        )

    def _server_arguments(self) -> Sequence[str]:
        f = self.folder
        without = () if "controllers" in self._parts else ("--disable-admission-plugins=ServiceAccount",)
        return (
            *(f"--etcd-servers={self._etcd}", f"--etcd-cafile={f}/ca.crt"),
            *(f"--etcd-certfile={f}/server.crt", f"--etcd-keyfile={f}/server.key"),
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self._port}"),
            *(f"--tls-cert-file={f}/server.crt", f"--tls-private-key-file={f}/server.key", f"--cert-dir={f}"),
            *(f"--client-ca-file={f}/ca.crt", f"--token-auth-file={f}/tokens.csv", "--anonymous-auth=false"),
            *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", *without),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={f}/accounts.pub",
            f"--service-account-signing-key-file={f}/accounts.key",
            *("--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none"),
            *("--allow-privileged=true", "--shutdown-delay-duration=0s"),
            *self._flags,
        )

    def _controller_arguments(self) -> Sequence[str]:
        f = self.folder
        return (
            *(f"--kubeconfig={f}/controllers.kubeconfig", "--leader-elect=false", "--secure-port=0"),
            f"--controllers={','.join(f'{name}-controller' for name in CONTROLLERS)}",
            *("--use-service-account-credentials=true", f"--root-ca-file={f}/ca.crt"),
            f"--service-account-private-key-file={f}/accounts.key",
            *("--kube-api-qps=500", "--kube-api-burst=1000"),
        )

    def _scheduler_configuration(self) -> Path:
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.folder / "scheduler.kubeconfig"), "qps": 1000, "burst": 2000},
            "leaderElection": {"leaderElect": False},
        }
        path = self.folder / "scheduler.yaml"
        path.write_text(yaml.safe_dump(document))
        return path


@contextmanager
def running(
    programs: Path, folder: Path, parts: Sequence[str] = (), flags: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """A control plane while the context is open."""
    plane = ControlPlane(programs, folder, parts, flags)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def main(arguments: Sequence[str]) -> int:
    from tests.kubernetes.build import this_build

    made = this_build()
    if not made.is_complete:
        sys.stderr.write("the control plane is not built: make kubernetes\n")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    began = time.monotonic()
    with running(made.folder, Path(arguments[0]).resolve(), arguments[1:]) as plane, suppress(KeyboardInterrupt):
        sys.stderr.write(f"ready after {time.monotonic() - began:.1f} s: {plane.pids()}\n")
        sys.stdout.write(f"export KUBECONFIG={plane.kubeconfig}\n")
        sys.stdout.flush()
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
