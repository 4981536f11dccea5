"""The simulation finds nothing wrong with the operator and its stores, and finds what is made wrong on purpose."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from windrow.errors import QueryError
from windrow.storage.pages import MemoryPages
from windrow.storage.paging import Paging
from windrow_conformance.command import main
from windrow_conformance.generated import numbers_of
from windrow_conformance.simulation.campaign import CampaignReport, replayed, simulate, smallest
from windrow_conformance.simulation.events import DAMAGING, HARMLESS, REDIS
from windrow_conformance.simulation.histories import JobProcess, Moment, OtherHistory, SharedJob
from windrow_conformance.simulation.life import live, world_of
from windrow_conformance.simulation.servers import FaultyPages
from windrow_conformance.simulation.streams import SHARED

SCHEDULES, SECONDS = (200_000, 1800.0) if os.environ.get("WINDROW_LONG") else (10 * SHARED, 12.0)


def test_whatever_happens_the_output_is_that_of_an_uninterrupted_run() -> None:
    report = simulate(range(SCHEDULES), seconds=SECONDS)
    assert not report.failures, report.failures[0]
    assert report.schedules >= 64
    if report.schedules > 600:
        assert set(report.events) == {*HARMLESS, *DAMAGING, *REDIS}


def test_a_seed_lives_the_same_life_again() -> None:
    assert [live(seed) for seed in range(20)] == [live(seed) for seed in range(20)]


class ForgetfulPages(FaultyPages):
    """Loses a page now and then without being told to."""

    def _write(self, put: Mapping[str, bytes], gone: Iterable[str]) -> None:
        super()._write({name: page for name, page in put.items() if not name.startswith("rows.")}, gone)


def _without_numbers(self: Paging, *arguments: Any) -> None:
    """Loads leaves of any commit, as if they carried no number."""
    self.leaves = {}


def test_a_store_that_breaks_its_promise_unasked_is_found_and_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("windrow_conformance.simulation.homes.FaultyPages", ForgetfulPages)
    report = simulate(range(25 * SHARED, 25 * SHARED + 32))
    assert report.differences > 2
    replay = smallest(report.failures[0][0])
    assert replayed(replay).failure
    events, atoms = (list(numbers_of(part)) for part in replay.split(":")[1:])
    assert len(events) <= 2 and len(atoms) <= 12, "few events and few atoms are left"
    whole = ["simulate", "--first", str(25 * SHARED), "--seeds", "32"]
    seen = CliRunner().invoke(main, whole)
    again = [line for line in seen.stderr.splitlines() if "again: " in line]
    assert seen.exit_code == 1 and len(again) == report.differences, "each is told at once"
    assert f"--replay {replay}" in seen.stdout.splitlines()[-1]
    ran = CliRunner().invoke(main, ["simulate", "--replay", replay])
    assert ran.exit_code == 1 and "state in" in ran.output


def test_a_page_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If damaged state were loaded as if it were empty, windows would be missing."""
    monkeypatch.setattr(Paging, "load", _without_numbers)
    assert simulate(range(25 * SHARED, 25 * SHARED + 32)).differences > 2


def test_the_command_counts_what_it_has_seen(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["simulate", "--seeds", "8", "--report", str(tmp_path / "report.csv")])
    assert ran.exit_code == 0 and ran.output.startswith("8 schedules, 0 differences")
    assert "schedules,8" in (tmp_path / "report.csv").read_text()
    more = ["simulate", "--seeds", "24", "--report", str(tmp_path / "report.csv"), "--resume"]
    assert CliRunner().invoke(main, more).output.startswith("24 schedules, 0 differences")
    seen, whole = CampaignReport.read(tmp_path / "report.csv"), simulate(range(24))
    assert (seen.schedules, seen.events, seen.kinds) == (24, whole.events, whole.kinds)


def test_what_lives_share_changes_nothing() -> None:
    """A life that takes from others what they did comes to the same as one that does everything itself."""
    for number in (1, 3, 7):
        world = world_of(number)
        seeds = range(number * SHARED, number * SHARED + 24)
        live(seeds.start, events=(), world=world)
        shared = [live(seed, world=world) for seed in seeds]
        alone = [live(seed) for seed in seeds]
        assert [replace(each, ran=0) for each in shared] == [replace(each, ran=0) for each in alone]
        assert sum(each.ran for each in shared) < 0.9 * sum(each.ran for each in alone)


def test_a_job_that_depends_on_more_than_its_history_is_found() -> None:
    begin, pages, numbers = Moment(), MemoryPages(), count()

    def work(process: JobProcess) -> None:
        process.store.get([str(next(numbers))])

    SharedJob(begin, pages).do("read", work)
    SharedJob(begin, pages).do("read", work)  # goes along, and asks for nothing new
    pages.commit({"0": b"another answer"}, [])
    with pytest.raises(OtherHistory, match=r"asked for .*'1'.*, and before for .*'0'"):
        SharedJob(begin, pages).do("read", work)


def test_a_replay_that_names_nothing_is_refused() -> None:
    with pytest.raises(QueryError, match="cannot replay '7:x'"):
        replayed("7:x")
