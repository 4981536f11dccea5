"""Servers that tests need, on this machine and this test run's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def installed(program: str, package: str) -> str:
    """Where a program is. Debian's is installed if need be."""
    known = os.pathsep.join([os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
    found = shutil.which(program, path=known)
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        for step in (["update"], ["install", "-y", "--no-install-recommends", package]):
            command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *step]
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
        return installed_now(program)
    if found is None:
        pytest.fail(f"this test needs {program} on the PATH (Debian: apt-get install {package})")
    return found


def installed_now(program: str) -> str:
    places = [Path("/usr/bin"), *Path("/usr/lib/postgresql").glob("*/bin")]
    found = next((place / program for place in places if (place / program).exists()), None)
    if found is None:
        pytest.fail(f"this test needs {program} on the PATH, and it could not be installed")
    return str(found)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL of its own, on 127.0.0.1; how to connect to it. It does not run as root, so it gets another user."""
    initdb, pg_ctl = (installed(program, "postgresql") for program in ("initdb", "pg_ctl"))
    folder, port = Path(tempfile.mkdtemp(prefix="windrow-postgres-")), free_port()
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")

    def run(*command: str) -> None:
        subprocess.run([*user, *command], check=True, capture_output=True, cwd=folder, timeout=120)

    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    try:
        run(initdb, "-D", str(folder / "data"), "-A", "trust", "-U", "windrow", "-N")
        run(pg_ctl, "-D", str(folder / "data"), "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"host=127.0.0.1 port={port} user=windrow dbname=postgres"
        finally:
            run(pg_ctl, "-D", str(folder / "data"), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def prometheus(target: int, folder: Path) -> Iterator[str]:
    """A Prometheus that scrapes a port of this machine every second; the address of its API."""
    binary, port = installed("prometheus", "prometheus"), free_port()
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: windrow, honor_labels: true, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
    )
    command = [binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
