"""What README.md and the first page of the documentation tell people to type works."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_examples_run(page: str) -> None:
    examples = blocks(page, "python")
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {"__name__": "__main__"})


def test_ci_runs_the_test_command_of_the_readme() -> None:
    demo, tests = blocks("README.md", "sh")
    assert demo.endswith("windrow demo\n")
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").endswith(f"\n{tests}")
