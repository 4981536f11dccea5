# SPDX-License-Identifier: Apache-2.0
"""What the demo prints at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from windrow.demo.compare import Compared
from windrow.demo.findings import Findings, kilowatt_hours, name_of
from windrow.demo.scenario import Ran, Readings

__all__ = ["Summary", "tell"]


@dataclass(frozen=True)
class Summary:
    """The numbers of a run."""

    readings: Readings
    ran: Ran
    compared: dict[str, Compared]
    plugs: int
    houses: int
    output: Path

    @property
    def windows(self) -> int:
        return sum(each.windows for each in self.compared.values())

    @property
    def same(self) -> bool:
        return all(each.same for each in self.compared.values())

    @property
    def difference(self) -> str:
        return "; ".join(
            f"{name}: {each.difference}" for name, each in self.compared.items() if not each.same
        )

    @property
    def rate(self) -> float:
        """Rows that entered both queries, a second."""
        return self.readings.loads / self.ran.seconds

    @property
    def commands(self) -> list[str]:
        return [
            f"windrow run {self.output}/plugs.toml --input {self.output}/loads.parquet --output peaks.parquet",
            f"windrow explain {self.output}/plugs.toml",
        ]


def tell(console: Console, summary: Summary, findings: Findings, page: Path) -> None:
    """Print the tables, and the sentences below them."""
    ran = summary.ran
    houses = Table(title=f"The hour to {findings.until:%H:%M:%S} UTC: houses", title_justify="left")
    for head in ("house", "kWh", "mean W", "peak W"):
        houses.add_column(head, justify="right")
    for row in findings.houses:
        houses.add_row(
            str(row["house"]), f"{kilowatt_hours(row):.2f}", f"{row['mean']:.1f}", f"{row['peak']:,.0f}"
        )
    plugs = Table(title="and the busiest plugs", title_justify="left")
    plugs.add_column("plug")
    for head in ("peak W", "p95 W", "mean W"):
        plugs.add_column(head, justify="right")
    for row in findings.plugs:
        plugs.add_row(name_of(row), *(f"{row[column]:,.1f}" for column in ("peak", "p95", "mean")))
    console.print(houses)
    console.print(plugs)
    lines = [
        f"[bold]{summary.readings.loads:,}[/] of {summary.readings.rows:,} readings are loads; each load entered both queries. They became "
        f"[bold]{summary.windows:,}[/] windows of an hour, one every second, in {ran.seconds:.1f} s on {escape(ran.engine)}: "
        f"[bold]{summary.rate:,.0f} rows/s[/]"
        + (f" (start-up before that: {ran.starting:.1f} s)." if ran.starting >= 0.05 else ".")
        + ("" if ran.first is None else f" The first windows came after {ran.first:.1f} s."),
    ]
    if ran.peer is not None:
        peer = ran.peer
        lines.append(
            f"{peer.rows:,} of these rows as a batch, peak, mean and count, both warm: {escape(peer.what)} took {peer.seconds:.2f} s, "
            f"windrow {peer.ours:.2f} s for the same {peer.windows:,} windows, [bold]{peer.seconds / peer.ours:.1f} times[/] as fast."
        )
    furthest = max(each.furthest for each in summary.compared.values())
    exact = "every value equal" if furthest == 0 else f"sums within {furthest:.0e}, all else equal"
    lines.append(
        f"same windows as the in-process engine: [bold green]yes[/] ({exact})"
        if summary.same
        else f"same windows as the in-process engine: [bold red]no[/] ({escape(summary.difference)})"
    )
    lines.append(
        f"Windows: {escape(str(summary.output))}/plugs, {escape(str(summary.output))}/houses (Parquet)"
    )
    lines.append(f"Page:    {escape(str(page))}")
    console.print()
    for line in lines:
        console.print(line, soft_wrap=True)
    console.print("\n[bold]Next[/]")
    for command in [*summary.commands, "windrow doctor"]:
        console.print(f"  [cyan]{escape(command)}[/]", soft_wrap=True)
