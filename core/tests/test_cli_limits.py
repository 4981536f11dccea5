"""What `windrow run` refuses: damaged input, too many windows, too much memory. And what it leaves then."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cli_runs import COUNT, TOML, read, refused, windrow, write
from pyarrow import parquet

import windrow as wr
from windrow.cli.files import open_rows


def test_json_lines_have_infinities(tmp_path: Path) -> None:
    """What is written can be read again."""
    values = [1.5, float("inf"), float("-inf"), float("nan")]
    table = pa.table({"ts": [1, 2, 3, 4], "load": values})
    write(table, tmp_path / "rows.jsonl")
    assert "-Infinity" in (tmp_path / "rows.jsonl").read_text()
    assert str(read(tmp_path / "rows.jsonl").to_pylist()) == str(table.to_pylist())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"ts": 3, "x": Infinity}',
            "line 60003: 'x' is Infinity, and the first lines have whole numbers there; write",
        ),
        ('{"ts": 3, "x": NaN}', "line 60003: 'x' is NaN, and the first lines have whole numbers"),
        (
            '{"ts": 3, "x": 1e999}',
            "line 60003: 1e999 is larger than any float64; write Infinity or -Infinity",
        ),
        (
            '{"ts": 3, "x": -inf}',
            "line 60003 is not valid JSON: Expecting value, at character 16; write NaN, Infinity or -Infinity",
        ),
        (
            '{"ts": 3, "x": "a\tb"}',
            "line 60003 is not valid JSON: Invalid control character, at character 18; every line has to hold one whole object",
        ),
        (
            '{"ts": 3, "x": "a',
            "line 60003 is not valid JSON: Unterminated string starting, at character 16; every",
        ),
        ('{"ts": 3, "x": "a"}', "line 60003: 'x' is \"a\", and in earlier lines it is a whole number"),
        ("[3]", 'line 60003: expected an object such as {"ts": 1}, not [3]'),
    ],
)
def test_a_line_of_json_that_cannot_be_read_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "query.toml").write_text(COUNT)
    rows = '{"ts": 1, "x": 1}\n' * 60_001 + "\n" + line + "\n"
    (tmp_path / "rows.jsonl").write_text(rows)
    output = tmp_path / "windows.jsonl"
    arguments = (tmp_path / "query.toml", "--output", output, "--input")
    assert message in refused(*arguments, tmp_path / "rows.jsonl")
    result = windrow("run", *arguments, "-", "--format", "jsonl", stdin=rows.encode())
    assert result.exit_code == 2 and message in " ".join(result.output.split())
    assert {path.name for path in tmp_path.iterdir()} == {"query.toml", "rows.jsonl"}, "no partial file"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_row_without_a_time_is_named(tmp_path: Path, form: str) -> None:
    """Only the first of many, which are in batches that are read one by one."""
    (tmp_path / "query.toml").write_text(COUNT)
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, lost in (("a", 0), ("b", 70_000)):
        times = [None if lost and n >= lost else n for n in range(200_000)]
        write(pa.table({"x": [1] * len(times), "ts": times}), folder / f"{name}.{form}")
    file = folder / f"b.{form}"
    line = 70_001 + (form == "csv")
    query = tmp_path / "query.toml"
    told = ": 'ts' has no value, and every row needs a time; give it one, or remove the row"
    assert f"b.{form}, line {line}{told}" in refused(query, "--input", folder)
    assert f"b.{form}, line {line}{told}" in refused(query, "--input", file)
    result = windrow("run", query, "--input", "-", "--format", form, stdin=file.read_bytes())
    assert result.exit_code == 2
    assert f"standard input, row 70,001{told}" in " ".join(result.output.split())


def test_an_output_that_is_refused_leaves_nothing(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV has no lists, which shows when the file is opened; a file that was there stays as it was."""
    (saved / "lists.toml").write_text(TOML.replace("Count()", "Collect(load)"))
    (saved / "windows.csv").write_text("mine")
    before = sorted(path.name for path in saved.iterdir())
    message = refused(saved / "lists.toml", "--input", saved / "plugs.csv", "--output", saved / "windows.csv")
    assert "windows.csv cannot be written as CSV" in message
    assert sorted(path.name for path in saved.iterdir()) == before
    assert (saved / "windows.csv").read_text() == "mine"

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    for target in ("windows.parquet", "windows/"):
        message = refused(
            saved / "query.toml", "--input", saved / "plugs.csv", "--output", f"{saved}/{target}"
        )
        assert "no space left" in message
    assert list((saved / "windows").iterdir()) == [] and not list(saved.glob("*.parquet*"))


def test_more_windows_than_the_limit_are_refused(saved: Path) -> None:
    rows, output = saved / "plugs.csv", saved / "windows.parquet"
    (saved / "many.toml").write_text(TOML.replace("5m", "3000d").replace("1m", "1us"))
    message = refused(saved / "many.toml", "--input", rows, "--output", output)
    assert "each row is in 259,200,000,000,000 windows, and --windows-limit allows 10,000,000,000" in message
    limited = ("--input", rows, "--output", output, "--windows-limit")
    # 30 minutes of data: 34 windows end after a row; 3 plugs have 34 each.
    assert "the rows have at least 34 windows, and --windows-limit allows 33" in refused(
        saved / "query.toml", *limited, 33
    )
    assert "so far there are 102 windows, and --windows-limit allows 101" in refused(
        saved / "query.toml", *limited, 101
    )
    assert not output.exists() and not list(saved.glob(".*"))
    assert windrow("run", saved / "query.toml", *limited, 102).exit_code == 0


def test_the_lack_of_memory_is_one_message(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_: object) -> None:
        raise MemoryError("Unable to allocate 1.89 PiB")

    monkeypatch.setattr(wr.Operator, "finish", no_more)
    message = refused(saved / "query.toml", "--input", saved / "plugs.csv", "--output", saved / "windows.csv")
    assert "not enough memory (Unable to allocate 1.89 PiB); give the query a longer slide" in message
    assert not list(saved.glob("*windows.csv*"))


def bomb(path: Path, rows: int, length: int) -> None:
    """A text of this length, once in a dictionary, in every row."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * length]))
    table = pa.table({"ts": np.arange(rows), "s": text})
    parquet.write_table(table, path, compression="zstd", store_schema=False)


def test_a_small_parquet_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    """46 KB that stand for 16 GB are read a piece at a time."""
    bomb(tmp_path / "bomb.parquet", 16_000, 1 << 20)
    assert (tmp_path / "bomb.parquet").stat().st_size < 60_000
    rows = iter(open_rows(str(tmp_path / "bomb.parquet"), memory=80 << 20))
    before = pa.total_allocated_bytes()
    for _ in range(20):
        batch = next(rows)
        assert 9 << 20 < batch.nbytes < 11 << 20 and batch["s"].type == pa.string()
        assert pa.total_allocated_bytes() - before < 40 << 20
    (tmp_path / "query.toml").write_text(COUNT)
    bomb(tmp_path / "small.parquet", 3000, 1 << 20)
    program = (
        "import sys; from windrow.cli import main\n"
        "try: main()\n"  # not ru_maxrss, which begins with that of the process that starts this one
        "finally: print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "run", str(tmp_path / "query.toml"), "--memory", "400MB"]
    command += ["--input", str(tmp_path / "small.parquet")]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    assert "3,000 rows → 300 windows" in ran.stdout
    assert int(ran.stderr.split()[-1]) < 1_500_000, "kilobytes, of which 3,000,000 are the texts"


def test_parquet_that_declares_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "query.toml").write_text(COUNT)
    table = pa.table({"ts": np.arange(20_000), "s": ["x" * 1000] * 20_000})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    message = refused(tmp_path / "query.toml", "--input", path, "--memory", "10MB")
    assert (
        "column 's' takes 20.1 MB in row group 0, and --memory allows 10.0 MB; raise it, or write" in message
    )
    assert windrow("run", tmp_path / "query.toml", "--input", path, "--memory", "30 MB").exit_code == 0
    lists = pa.table({"ts": [0], "l": pa.array([np.zeros(1 << 20)])})
    parquet.write_table(lists, path)
    assert "column 'l.list.element' takes 8.4 MB" in refused(
        tmp_path / "query.toml", "--input", path, "--memory", "8MB"
    )
    assert "--memory: cannot read 'much'" in refused(
        tmp_path / "query.toml", "--input", path, "--memory", "much"
    )


def test_rows_that_wait_for_their_order_are_limited(saved: Path) -> None:
    (saved / "first.toml").write_text(TOML.replace("Count()", "First(load)"))
    arguments = (saved / "first.toml", "--input", saved / "plugs.csv", "--memory", "10kB")
    assert "take more than the 10.0 kB that --memory allows; give --delay" in refused(*arguments)
    assert windrow("run", *arguments, "--delay", "1m").exit_code == 0
    assert windrow("run", saved / "query.toml", *arguments[1:]).exit_code == 0


def test_parquet_files_of_a_folder_have_the_columns_of_the_first(tmp_path: Path) -> None:
    first = pa.table({"ts": [1], "s": ["a"], "l": pa.array(["b"], pa.large_string()), "x": [1.5]})
    other = pa.table({"x": pa.array([2], pa.int32()), "ts": [2], "l": ["c"], "more": [1]})
    parquet.write_table(first, tmp_path / "0.parquet")
    parquet.write_table(other, tmp_path / "1.parquet")
    found = read(tmp_path)
    assert found.schema.equals(first.schema)
    assert found.to_pylist()[1] == {"ts": 2, "s": None, "l": "c", "x": 2.0}


# The others.
