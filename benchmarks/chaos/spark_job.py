"""The Spark job that is killed: that of the tests, on a master that tries a task again. Run as a program."""

import sys
from pathlib import Path

import crash_job
from conftest import session
from crash_job import run

from windrow_spark import prepare, session_conf


def main(folder: Path, master: str) -> None:
    settings = {
        **session_conf(),
        "spark.master": master,
        "spark.cores.max": "2",
        "spark.executor.memory": "1g",
        "spark.task.maxFailures": "100",
    }
    spark = session(folder, settings)
    spark.sparkContext.addPyFile(crash_job.__file__)  # executors have functions of the query from the job
    run(prepare(spark) if master.startswith("spark:") else spark, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
