"""Writes golden/savepoints-v1.zip: the savepoints of two jobs that have read a part of their rows, and their windows until then.

Run as a program, and only when the format of the state gets a new version (then under a new name: old ones stay).
"""

import sys
import tempfile
import zipfile
from pathlib import Path

import job
from test_recovery import output, run

WAYS: dict[str, dict[str, str]] = {"rows": {}, "batches": {"way": "batches"}}
"""How rows cross into Python, and what starts the job of ``job.py`` that way."""


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as made, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, options in WAYS.items():
            folder = Path(made) / name
            folder.mkdir()
            said = output(
                run(folder, "thread", "hashmap", 1, stop_after=150, linger_at=job.ROWS // 3, **options)
            )
            if not (folder / "savepoint").exists():
                raise SystemExit(said)
            (saved,) = (folder / "savepoints").iterdir()
            saved.rename(folder / "saved")
            for file in [
                *(folder / "saved").iterdir(),
                *(folder / each for each in ("time", "count", "workers")),
            ]:
                if file.exists():
                    archive.write(file, file.relative_to(made))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
