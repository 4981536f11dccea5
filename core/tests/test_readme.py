"""README.md: its two commands, its links, its ten lines, and its plot. What its examples print is in test_docs.py."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    demo, tests = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    assert demo.endswith("windrow demo\n")
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").endswith(f"\n{tests}")


def test_links_lead_somewhere() -> None:
    missing = [link for link in re.findall(r"\]\((?!http)([^)#]+)", README) if not (ROOT / link).exists()]
    assert not missing


def test_the_first_example_has_ten_lines() -> None:
    example = re.search(r"^```python\n(.*?)^```", README, re.M | re.S)
    assert example is not None
    assert len(example[1].splitlines()) <= 10


def test_the_plot_is_drawn_from_results_on_both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    program = runpy.run_path(str(ROOT / "benchmarks" / "readme_plot.py"), run_name="readme_plot")
    groups = [*program["spark"](), *program["flink"]()]
    assert {group.name.partition(" ")[0].rstrip(",") for group in groups} == {"Spark", "Flink"}
    assert all(len(group.rates) > 1 and min(group.rates.values()) > 0 for group in groups)
    assert any("two-step" in group.rates for group in groups), "the best way of Spark alone is among them"
