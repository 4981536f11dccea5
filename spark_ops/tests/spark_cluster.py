"""A standalone cluster of a master and two workers, started from the pip package, on loopback."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The cluster's address. Its workers run in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    # No PYTHONPATH: what executors know of windrow, they have from the job.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    env["SPARK_MASTER_OPTS"] = (
        "-Dspark.deploy.maxExecutorRetries=-1"  # executors are killed more often than it allows
    )
    launch = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), "org.apache.spark.deploy."]
    daemons = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for name in "ab":
        place = str(folder / f"worker-{name}")
        daemons.append(
            [
                "worker.Worker",
                "--host",
                "127.0.0.1",
                "-c",
                "1",
                "-m",
                "1g",
                "--webui-port",
                "0",
                "-d",
                place,
                url,
            ]
        )
    started = []
    with (folder / "daemons.log").open("wb") as log:
        for daemon in daemons:
            command = [launch[0], launch[1] + daemon[0], *daemon[1:]]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True))
        try:
            yield url
        finally:
            for each in started:
                os.killpg(each.pid, signal.SIGTERM)
                each.wait()
