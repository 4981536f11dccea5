"""CSV with a wrong line or value: the message names the file, the line, the column and the value."""

from pathlib import Path

import pytest
from cli_runs import windrow

from windrow.cli.files import open_rows

QUERY = """
by = ["plug"]
time = "ts"
time_unit = "s"

[window]
kind = "time"
range = "10s"

[aggregates]
"""
LINES = [f"{1_700_000_000 + n},{n % 3},{n}.5" for n in range(40)]


def ran(folder: Path, lines: list[str], aggregate: str = 'x = "Mean(load)"', stdin: bool = False) -> str:
    """What a run over these lines prints, in one line."""
    text = "\n".join(["ts,plug,load", *lines]) + "\n"
    (folder / "rows.csv").write_text(text, encoding="utf-8")
    (folder / "query.toml").write_text(QUERY + aggregate, encoding="utf-8")
    source = "-" if stdin else folder / "rows.csv"
    arguments = ("--input", source, "--output", folder / "windows.csv")
    result = windrow("run", folder / "query.toml", *arguments, stdin=text.encode() if stdin else None)
    return f"{result.exit_code}: {' '.join(result.output.split())}"


def with_line(position: int, line: str) -> list[str]:
    return [*LINES[:position], line, *LINES[position + 1 :]]


@pytest.mark.parametrize("blank_lines", [0, 2])
def test_a_word_among_numbers_is_named_with_its_line(tmp_path: Path, blank_lines: int) -> None:
    lines = [""] * blank_lines + with_line(20, '1700000020,1,"twenty"')
    message = ran(tmp_path, lines)
    assert message.startswith("2: Error: ")
    assert f"rows.csv, line {22 + blank_lines}: 'load' is 'twenty'" in message
    assert "leave the value empty" in message
    lines = with_line(20, "1700000020,1,")
    assert ran(tmp_path, lines).startswith("0: 40 rows")


def test_a_word_among_times_is_named_and_may_not_be_left_empty(tmp_path: Path) -> None:
    message = ran(tmp_path, with_line(7, "soon,1,7.5"))
    assert message.startswith("2: Error: ") and "line 9: 'ts' is 'soon'" in message
    assert "remove it" in message and "empty" not in message


def test_a_word_among_dates_is_named(tmp_path: Path) -> None:
    lines = [f"2024-01-01 08:00:{n:02},1,{n}.5" for n in range(20)]
    (tmp_path / "query.toml").write_text(QUERY.replace('time_unit = "s"', "") + 'n = "Count()"')
    (tmp_path / "rows.csv").write_text("\n".join(["ts,plug,load", *lines, "soon,1,2.5"]))
    result = windrow("run", tmp_path / "query.toml", "--input", tmp_path / "rows.csv")
    assert result.exit_code == 2
    assert "line 22: 'ts' is 'soon', and most values of that column are times" in " ".join(
        result.output.split()
    )


def test_several_odd_values_are_counted(tmp_path: Path) -> None:
    lines = with_line(3, "1700000003,0,off")
    lines[5] = "1700000005,2,off"
    assert "Of its first 40 values, 2 are like that." in ran(tmp_path, lines)


def test_empty_values_before_the_odd_one_are_not_to_blame(tmp_path: Path) -> None:
    lines = with_line(0, "1700000000,0,")
    lines[1], lines[3] = "1700000001,1,NA", "1700000003,0,12..3"
    message = ran(tmp_path, lines)
    assert "rows.csv, line 5: 'load' is '12..3'" in message and "are like that" not in message
    lines[3] = "1700000003,0,12.3"
    assert ran(tmp_path, lines).startswith("0: 40 rows")


def test_a_word_among_numeric_keys_is_a_warning(tmp_path: Path) -> None:
    message = ran(tmp_path, with_line(5, "1700000005,spare,5.5"))
    assert message.startswith("0: Warning: ") and "line 7: 'plug' is 'spare'" in message
    assert open_rows(str(tmp_path / "windows.csv")).schema.field("plug").type == "string"


def test_names_and_mixed_keys_are_no_reason_for_a_warning(tmp_path: Path) -> None:
    mixed = [line.replace(",0,", ",a0,") for line in LINES]
    named = [line.replace(",0,", ",a,").replace(",1,", ",b,").replace(",2,", ",c,") for line in LINES]
    for lines in (mixed, named):
        assert ran(tmp_path, lines).startswith("0: 40 rows")


def test_a_column_of_names_has_the_aggregates_own_message(tmp_path: Path) -> None:
    lines = [f"{1_700_000_000 + n},a{n % 3},x{n}" for n in range(40)]
    assert "Mean(load) needs a numeric column" in ran(tmp_path, lines)


def test_a_column_that_the_query_does_not_read_may_hold_anything(tmp_path: Path) -> None:
    assert ran(tmp_path, with_line(5, "1700000005,1,off"), 'n = "Count()"').startswith("0: 40 rows")


def test_on_standard_input_the_row_is_named(tmp_path: Path) -> None:
    message = ran(tmp_path, with_line(20, "1700000020,1,twenty"), stdin=True)
    assert "standard input, row 21: 'load' is 'twenty'" in message


def test_a_line_of_other_length_is_named(tmp_path: Path) -> None:
    message = ran(tmp_path, with_line(30, "1700000030,1,30.5,on"))
    assert "rows.csv, line 32 has 4 columns, and the header has 3" in message


@pytest.mark.parametrize("closed", [True, False], ids=["closed later", "never closed"])
def test_a_quote_that_is_not_closed_is_named(tmp_path: Path, closed: bool) -> None:
    lines = with_line(30, '1700000030,"1,30.5')
    if closed:
        lines[33] = '1700000033,1",33,5'
    message = ran(tmp_path, lines)
    wrong = "line 35 has 4 columns" if closed else "line 41 has 2 columns"
    assert (
        f"rows.csv, {wrong}, and the header has 3: a quote that is opened on line 32 is not closed" in message
    )


def test_a_quote_before_the_end_of_a_block_that_is_not_closed_is_named(tmp_path: Path) -> None:
    lines = [f"{1_700_000_000 + n},1,{n}.5" for n in range(80_000)]
    lines[30] = '1700000030,"1,30.5'
    assert "rows.csv, line 32: a quote is opened there and not closed" in ran(tmp_path, lines)


def test_a_word_behind_the_first_megabyte_is_named(tmp_path: Path) -> None:
    lines = [f"{1_700_000_000 + n},1,{n}.5" for n in range(80_000)]
    lines[79_000] = "1700079000,1,twenty"
    message = ran(tmp_path, lines)
    assert message.startswith("2: Error: ")
    assert "rows.csv, line 79002: 'load' is 'twenty', and the first lines have double there" in message


def test_the_file_of_a_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, lines in (("a", LINES), ("b", with_line(2, "1700000002,1,twenty"))):
        (folder / f"{name}.csv").write_text("\n".join(["ts,plug,load", *lines]), encoding="utf-8")
    (tmp_path / "query.toml").write_text(QUERY + 'x = "Mean(load)"', encoding="utf-8")
    result = windrow("run", tmp_path / "query.toml", "--input", folder)
    assert result.exit_code == 2 and "b.csv, line 4: 'load' is 'twenty'" in " ".join(result.output.split())
