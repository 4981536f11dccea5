"""The two commands at the top of README.md. Its examples run in test_docs.py."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    demo, tests = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    assert demo.endswith("windrow demo\n")
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").endswith(f"\n{tests}")
