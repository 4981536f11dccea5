"""Writes golden/checkpoint-v1.zip: the checkpoint of a stream that has read half of its rows. Run as a program, with the oldest
Spark that is supported, and only when the format of the state gets a new version (then under a new name: old ones stay).
"""

import sys
import tempfile
import zipfile
from pathlib import Path

from conftest import session
from crash_job import run
from test_crashes import make_rows

PLACE = "/golden"
"""Stands for the folder of the test in the files of the checkpoint that name it."""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        spark = session(folder)
        make_rows(spark, folder, files=2)
        run(spark, folder)
        spark.stop()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(path for path in (folder / "checkpoint").rglob("*") if path.is_file()):
                if not file.name.endswith(".crc"):
                    content = file.read_bytes().replace(str(folder).encode(), PLACE.encode())
                    archive.writestr(str(file.relative_to(folder)), content)
            for part, name in (("rows", "rows"), ("windows", "before")):
                for file in sorted((folder / part).glob("*.parquet")):
                    archive.writestr(f"{name}/{file.name}", file.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
