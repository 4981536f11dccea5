"""The files that stand beside the code agree with it: version, pinned tools, the jobs of the workflow."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

import windrow

ROOT = Path(__file__).parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {windrow.__version__}\n" in read("CITATION.cff")
    assert f"\nlicense: {project()['license']}\n" in read("CITATION.cff")


def test_hooks_before_a_commit_use_the_versions_of_tox() -> None:
    pinned = set(re.findall(r"ruff==[\d.]+", read(".pre-commit-config.yaml")))
    assert pinned == set(re.findall(r"ruff==[\d.]+", read("tox.ini")))


def test_the_workflow_runs_every_environment_of_tox() -> None:
    jobs = set(re.findall(r"environment: ([\w-]+),", read(".github/workflows/checks.yml")))
    (listed,) = re.findall(r"^env_list = (.+)$", read("tox.ini"), re.M)
    assert jobs == set(listed.split(", "))


def test_pythons_that_are_claimed_are_tested() -> None:
    claimed = {
        version for name in project()["classifiers"] for version in re.findall(r"Python :: (3\.\d+)", name)
    }
    assert claimed == set(re.findall(r'python: "(3\.\d+)"', read(".github/workflows/checks.yml")))


def test_documents_of_the_project_are_in_the_source_archive() -> None:
    included = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    documents = {path.name for path in ROOT.iterdir() if path.suffix in (".md", ".cff")}
    assert {f"/{name}" for name in documents} <= set(included)


@pytest.mark.parametrize("source", [None, "https://example.org/windrow"])
def test_the_page_of_the_package_has_no_relative_links(source: str | None) -> None:
    long_description = runpy.run_path(str(ROOT / "docs" / "long_description.py"))["long_description"]
    text = long_description(read("README.md"), source)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert not [link for link in links if not link.startswith("https://")]
    assert bool(links) == (source is not None)
    assert all((ROOT / link.split("/main/")[1]).exists() for link in links)
    assert set(re.findall(r"^```.*?^```", text, re.M | re.S)) == set(
        re.findall(r"^```.*?^```", read("README.md"), re.M | re.S)
    )


def project() -> dict[str, Any]:
    return tomllib.loads(read("pyproject.toml"))["project"]
