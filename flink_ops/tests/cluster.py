"""A standalone cluster from the pip package, on loopback: a JobManager, and TaskManagers that can be killed."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import urlopen

import pyflink

HOME = Path(pyflink.__file__).parent
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that runs for seconds takes half of its time to compile what it runs, unless it does so quickly."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Cluster:
    """``with Cluster(folder) as cluster: cluster.add("one", slots=2)``"""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "log").mkdir(parents=True)
        shutil.copytree(HOME / "conf", folder / "conf")
        settings = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": free_port(),
            "jobmanager.bind-host": "127.0.0.1",
            "jobmanager.memory.process.size": "1g",
            "taskmanager.host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.memory.process.size": "1g",
            "taskmanager.memory.managed.size": "64m",
            "taskmanager.memory.network.min": "32m",
            "taskmanager.memory.network.max": "32m",
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": self.port,
            "heartbeat.interval": 500,
            "heartbeat.timeout": 4000,
            "blob.server.port": free_port(),
        }
        known = (HOME / "conf" / "config.yaml").read_text()
        java = known[known.index("env:") : known.index("\njobmanager:")].splitlines()
        options = "\n".join(line for line in java if line.strip() and not line.strip().startswith("#"))
        options = options.replace("all: ", f"all: {SHORT_LIVED} ")
        lines = [options, *(f"{name}: {value}" for name, value in settings.items())]
        (folder / "conf" / "config.yaml").write_text("\n".join(lines) + "\n")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYFLINK_")},
            "FLINK_CONF_DIR": str(folder / "conf"),
            "FLINK_LOG_DIR": str(folder / "log"),
            "FLINK_PID_DIR": str(folder),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(os.path.isdir, sys.path))),
        }

    def __enter__(self) -> "Cluster":
        self._start("jobmanager", "jobmanager.sh", "start-foreground")
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in list(self.running):
            self.kill(name)

    def set(self, option: str, value: str) -> None:
        """A setting for what is started from now on."""
        with (self.folder / "conf" / "config.yaml").open("a") as config:
            config.write(f"{option}: {value}\n")

    def add(self, name: str, slots: int) -> None:
        """A further TaskManager."""
        options = {"taskmanager.resource-id": name, "taskmanager.numberOfTaskSlots": slots}
        arguments = [f"-D{option}={value}" for option, value in options.items()]
        self._start(name, "taskmanager.sh", "start-foreground", *arguments)

    def kill(self, name: str) -> None:
        """As a power failure does."""
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def ask(self, path: str) -> Any:
        """What the REST API answers."""
        with urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=30) as answer:
            return json.load(answer)

    def wait(self, seconds: float, condition: Any, what: str) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except OSError:  # not up yet, or too busy to answer
                pass
            time.sleep(0.3)
        logs = "\n".join(each.read_text()[-3000:] for each in (self.folder / "log").iterdir())
        raise AssertionError(f"after {seconds} s: {what}\n{logs}")

    def submit(self, *arguments: str) -> str:
        """``flink run --detached …``; the id of the job."""
        command = [str(HOME / "bin" / "flink"), "run", "--detached", "-m", f"127.0.0.1:{self.port}"]
        command += ["-pyclientexec", sys.executable, "-pyexec", sys.executable, *arguments]
        done = subprocess.run(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout.split("JobID ")[-1].split()[0]

    def _start(self, name: str, script: str, *arguments: str) -> None:
        with open(self.folder / "log" / f"{name}.out", "wb") as out:
            self.running[name] = subprocess.Popen(
                [str(HOME / "bin" / script), *arguments],
                env=self.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
