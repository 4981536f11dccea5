"""A standalone cluster loses a TaskManager in the middle of a job, and no window."""

from pathlib import Path

import job
from cluster import Cluster
from test_recovery import HERE, PATIENCE, lines

from windrow.testing import oracle


def test_a_killed_taskmanager_costs_no_window(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        for name in ("one", "two"):
            cluster.add(name, slots=2)
        cluster.wait(PATIENCE, lambda: cluster.ask("overview")["taskmanagers"] == 2, "not two TaskManagers")
        options = [
            f"--folder={tmp_path}",
            "--mode=thread",
            "--state=rocksdb",
            "--parallelism=2",
            "--detached=yes",
            "--way=rows",
        ]
        id_ = cluster.submit("-py", str(HERE / "job.py"), *options)

        def checkpoints() -> int:
            return int(cluster.ask(f"jobs/{id_}/checkpoints")["counts"]["completed"])

        cluster.wait(PATIENCE, lambda: lines(tmp_path / "time") > 100 and checkpoints() > 1, "no windows")
        at_work = {
            subtask["taskmanager-id"]
            for vertex in cluster.ask(f"jobs/{id_}")["vertices"]
            for subtask in cluster.ask(f"jobs/{id_}/vertices/{vertex['id']}")["subtasks"]
        }
        cluster.kill(sorted(at_work)[0])
        cluster.wait(PATIENCE, lambda: cluster.ask(f"jobs/{id_}")["state"] == "FINISHED", "not finished")
        assert cluster.ask(f"jobs/{id_}/checkpoints")["counts"]["restored"] == 1
    for name, query in {"time": job.QUERY, "count": job.COUNTED}.items():
        found = set((tmp_path / name).read_text().splitlines())
        expected = {repr(list(window.values())) for window in oracle.evaluate(job.table(), query).to_pylist()}
        assert found == expected, name
