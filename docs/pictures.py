"""The drawings of the documentation: windows, slices, chunks, trees. Each is a function that gives an SVG.

Colours are classes of ``style.css``, which take them from the theme. A drawing is 520 units wide, so that its
text can still be read on a phone. Numbers in a drawing are computed, never typed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate

WIDTH = 520
PICTURES: dict[str, Callable[[], str]] = {}


def picture(draw: Callable[[], Drawing]) -> Callable[[], Drawing]:
    PICTURES[draw.__name__] = lambda: draw().svg()
    return draw


@dataclass
class Drawing:
    """Shapes on a sheet; ``y`` grows downwards."""

    height: int
    says: str
    parts: list[str] = field(default_factory=list)

    def svg(self) -> str:
        head = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        tip = f'<defs>{head}<path class="arrow" d="M0 0L8 4L0 8z"/></marker></defs>'
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.says)}" '
            f'xmlns="http://www.w3.org/2000/svg">{tip}{"".join(self.parts)}</svg>'
        )

    def text(self, x: float, y: float, words: object, anchor: str = "middle", kind: str = "") -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y + 5:g}" text-anchor="{anchor}" class="{kind}">{escape(str(words))}</text>'
        )

    def box(
        self, x: float, y: float, wide: float, words: object = "", kind: str = "box", high: float = 26
    ) -> None:
        """A box whose middle is at height ``y``."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y - high / 2:g}" width="{wide:g}" height="{high:g}" rx="4" class="{kind}"/>'
        )
        if words != "":
            self.text(x + wide / 2, y, words)

    def line(self, x: float, y: float, to_x: float, to_y: float, kind: str = "", tip: bool = False) -> None:
        end = ' marker-end="url(#tip)"' if tip else ""
        self.parts.append(f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" class="line {kind}"{end}/>')

    def dot(self, x: float, y: float) -> None:
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="4" class="row"/>')

    def axis(self, y: float, ticks: Sequence[tuple[float, object]], start: float = 20) -> None:
        self.line(start, y, WIDTH - 8, y, tip=True)
        for x, words in ticks:
            self.line(x, y - 4, x, y + 4)
            self.text(x, y + 16, words, kind="quiet")


@picture
def sliding() -> Drawing:
    """Windows of five minutes that slide by one."""
    made = Drawing(
        196, "Three windows of five minutes, each one minute after the other, over one row of readings"
    )
    at = [30 + 64 * minute for minute in range(8)]
    for reading in range(22):
        made.dot(36 + 21.3 * reading, 16)
    made.axis(40, [(x, minute) for minute, x in enumerate(at)])
    made.text(512, 72, "minutes", "end", "quiet")
    for number, kind in enumerate(("one", "two", "three")):
        made.box(at[number], 92 + 38 * number, 5 * 64, f"[{number}, {number + 5})", kind)
    return made


@picture
def slices() -> Drawing:
    """Windows that share slices."""
    loads = [3, 5, 2, 7, 4, 1, 6, 0, 2, 8, 5, 3]
    parts = [max(loads[i : i + 2]) for i in range(0, 12, 2)]
    made = Drawing(226, "Twelve rows in six slices; windows of three slices each share them")
    made.text(8, 16, "rows", "start", "quiet")
    made.text(8, 56, "slices", "start", "quiet")
    for i, load in enumerate(loads):
        made.text(87 + 36 * i, 16, load)
    for i, part in enumerate(parts):
        made.box(70 + 72 * i, 56, 68, f"max {part}")
    for w in range(4):
        kind = ("one", "two", "three", "one")[w]
        made.box(70 + 72 * w, 96 + 36 * w, 212, f"window {w}: max {max(parts[w : w + 3])}", kind)
    return made


@picture
def chunks() -> Drawing:
    """Two chunks of slices with what the boundary aggregator keeps of them."""
    parts, size = [5, 6, 2, 4, 3, 7, 1, 8], 4
    window = (2, 7)  # the slices of the window that is shown
    made = Drawing(236, "Slices in two chunks; lcs runs from the boundary to the left, csa to the right")
    lcs = [max(parts[i : (i // size + 1) * size]) for i in range(len(parts))]
    csa = [value for chunk in (parts[:size], parts[size:]) for value in accumulate(chunk, max)]
    left = [64 + 56 * i for i in range(len(parts))]
    for name, y, values in (("saa", 50, parts), ("lcs", 96, lcs), ("csa", 142, csa)):
        made.text(8, y, name, "start")
        for i, value in enumerate(values):
            used = (name == "lcs" and i == window[0]) or (name == "csa" and i == window[1] - 1)
            needed = name == "saa" or (name == "lcs") == (i < size)
            made.box(left[i], y, 50, value, "one" if used else "box" if needed else "gone")
    edge = left[size] - 3
    made.line(edge, 22, edge, 166, "dashed")
    made.text(edge, 12, "boundary", kind="quiet")
    made.text(left[0] + 107, 12, "chunk 0", kind="quiet")
    made.text(left[4] + 107, 12, "chunk 1", kind="quiet")
    start, end = left[window[0]], left[window[1]] - 6
    made.box(
        start, 196, end - start, f"window: max(lcs {lcs[window[0]]}, csa {csa[window[1] - 1]})", "one", 30
    )
    made.line(start + 9, 110, start + 9, 180, "dashed")
    made.line(end - 9, 156, end - 9, 180, "dashed")
    made.text(8, 226, "dashed boxes: known, but no window needs them now", "start", "quiet")
    return made


@picture
def boundary() -> Drawing:
    """The boundary that moves with the window."""
    made = Drawing(
        212, "The window passes its boundary; the next boundary is the window's end at that moment"
    )
    names = list("abcdefgh")
    left = [40 + 58 * i for i in range(8)]
    for i, name in enumerate(names):
        made.box(left[i], 20, 52, name)
    for y, first, last, edge in ((76, 1, 6, 4), (156, 4, 8, 8)):
        x, middle, end = left[first], left[edge] - 3 if edge < 8 else left[7] + 55, left[last - 1] + 52
        made.box(x, y, middle - x - 3, f"lcs: {''.join(names[first:edge])}", "one")
        if edge < last:
            made.box(middle + 3, y, end - middle - 3, f"csa: {''.join(names[edge:last])}", "two")
        made.line(middle, y - 26, middle, y + 26, "dashed")
    made.text(40, 110, "a window: lcs[b] ⊕ csa", "start", "quiet")
    made.text(40, 192, "later: lcs is used up; new boundary at the end, lcs anew", "start", "quiet")
    return made


@picture
def kinds() -> Drawing:
    """Six kinds of windows over the same rows; those of the page on windows."""
    made = Drawing(408, "Six kinds of windows over the same six rows")
    times = {"a": 0, "b": 1, "c": 4, "d": 5, "e": 5, "f": 12}
    x = lambda time: 122 + 23 * time  # noqa: E731 - a scale
    for name, time in times.items():
        made.dot(x(time) + (6 if name == "e" else 0), 30)
        made.text(x(time) + (8 if name == "e" else -3 if name == "d" else 0), 12, name)
    made.axis(48, [(x(time), time) for time in range(0, 17, 4)], start=110)
    lanes: list[tuple[str, str, list[tuple[float, float]]]] = [
        ("time 4 / 2", "one", [(-0.4, 2), (0, 4), (2, 6), (4, 8), (10, 14), (12, 16)]),
        ("count 3 / 2", "one", [(-0.4, 4.4), (3.6, 5.7)]),
        ("session 3", "one", [(0, 8), (12, 15)]),
        ("time 5 / 2 rows", "two", [(-0.4, 1), (0, 5), (7, 12)]),
        ("2 rows / time 4", "two", [(0, 4), (5, 8), (5, 16)]),
        ("delta", "two", [(-0.4, 1.4), (-0.4, 5.1), (4.7, 5.6)]),
    ]
    for number, (name, kind, windows) in enumerate(lanes):
        y = 98 + 50 * number
        made.text(4, y, name, "start")
        for place, (start, end) in enumerate(windows):
            made.box(x(start), y - 12 + 12 * (place % 3), x(end) - x(start), kind=kind, high=9)
    made.text(
        4, 392, "green: known when the row comes (FCF); orange: not before later rows (FCA)", "start", "quiet"
    )
    return made


@picture
def active_workers() -> Drawing:
    """Windows dealt to two workers."""
    made = Drawing(246, "Windows of four rows that slide by one, dealt in turn to two workers")
    for i in range(8):
        made.box(110 + 50 * i, 20, 44, f"t{i}")
    made.text(8, 20, "rows", "start", "quiet")
    for w in range(5):
        y = 62 + 34 * w
        made.box(110 + 50 * w, y, 194, f"window {w}", "one" if w % 2 == 0 else "two")
        made.text(8, y, f"worker {w % 2}", "start")
    made.text(8, 236, "each worker slides by two: min(range, slide · workers)", "start", "quiet")
    return made


@picture
def agnostic_workers() -> Drawing:
    """A buffer of chunks that the emitter owns and workers read."""
    made = Drawing(
        232, "The emitter keeps chunks; free workers read windows from them; the collector orders results"
    )
    for i in range(6):
        kind = "gone" if i == 0 else "box"
        made.box(20 + 82 * i, 24, 76, "evicted" if i == 0 else f"chunk {i}", kind)
    for number, (first, kind) in enumerate(((1, "one"), (2, "two"))):
        x = 20 + 82 * first
        made.box(x, 72 + 34 * number, 82 * 3 - 6, f"window {number + 1}, read in place", kind)
        made.line(x + 120, 86 + 34 * number, 150 + 200 * number, 150, tip=True)
        made.box(90 + 200 * number, 166, 130, f"worker {number}", kind)
        made.line(155 + 200 * number, 180, 255, 206, tip=True)
    made.text(255, 218, "collector: windows in order")
    return made


@picture
def tree() -> Drawing:
    """LMTA: one tree over the updates, a queue per level."""
    made = Drawing(216, "A binary tree of sums over six updates, its levels as queues of pairs")
    leaves = [1, 2, 4, 1, 3, 2]
    levels = [leaves]
    while len(levels[-1]) > 2:
        below = levels[-1]
        levels.append([sum(below[i : i + 2]) for i in range(0, len(below), 2)])
    place = [[60 + 76 * i for i in range(len(leaves))]]
    for level in levels[1:]:
        below = place[-1]
        place.append([(below[2 * i] + below[min(2 * i + 1, len(below) - 1)]) / 2 for i in range(len(level))])
    for number, level in enumerate(levels):
        y = 180 - 68 * number
        made.text(4, y, f"L{number}", "start", "quiet")
        for i, value in enumerate(level):
            if number:
                for child in (2 * i, 2 * i + 1):
                    if child < len(levels[number - 1]):
                        made.line(place[number][i] + 24, y + 13, place[number - 1][child] + 24, y + 55)
            made.box(place[number][i], y, 48, value, "one" if number == len(levels) - 1 else "box")
    made.text(WIDTH - 8, 44, f"result {sum(leaves)}", "end")
    return made


@picture
def forest() -> Drawing:
    """AMTA: a forest; the last pair of every level is a root."""
    made = Drawing(260, "A forest over the updates b to i, with the result pair and the eviction stack")
    names, head = "abcdefghi", 1
    left = [44 + 52 * i for i in range(len(names))]
    for level in (2, 1, 0):
        y = 42 + 50 * (2 - level)
        made.text(4, y, f"L{level}", "start", "quiet")
        for node in range((len(names) + 1) // 2**level - 1):
            first, last = node * 2**level, (node + 1) * 2**level
            stale = first < head
            x, end = left[first], left[last - 1] + 46
            shown = names[first:last] if last > head else "∅"
            made.box(x, y, end - x, shown, "gone" if stale else "box")
    made.text(
        4, 12, "leftmost tree: a–d, of which a is evicted; the rest of the forest: e–i", "start", "quiet"
    )
    made.box(left[1], 196, 3 * 52 - 6, "R₀ = b ⊕ c ⊕ d", "one")
    made.box(left[4], 196, 5 * 52 - 6, "R₁ = e ⊕ f ⊕ g ⊕ h ⊕ i", "two")
    made.box(left[2], 238, 2 * 52 - 6, "c ⊕ d", "three")
    made.text(left[4], 238, "top of the stack: R₀ without b", "start", "quiet")
    return made


@picture
def buckets() -> Drawing:
    """What a bucket can get wrong."""
    made = Drawing(
        190, "A window of ten updates in buckets: evicting a bucket removes more updates than asked for"
    )
    sizes = [3, 3, 2, 2, 1]
    x = 16.0
    for number, size in enumerate(sizes):
        made.box(x, 30, 44 * size - 6, size, "gone" if number == 0 else "one")
        x += 44 * size
    total = sum(sizes)
    made.text(16, 66, f"{total} updates counted, 10 allowed: one has to go", "start", "quiet")
    made.box(16, 100, 44 * 3 - 6, "keep it", "two")
    made.text(160, 100, f"{total} instead of 10: false positive, error {total - 10}", "start")
    made.box(16, 142, 44 * 3 - 6, "evict it", "two")
    left = total - sizes[0]
    made.text(160, 142, f"{left} instead of 10: false negative, error {10 - left}", "start")
    made.text(16, 178, "a bucket is one leaf of the tree: its updates are combined already", "start", "quiet")
    return made


@picture
def idle() -> Drawing:
    """Keys whose windows are compressed after an idle time D."""
    made = Drawing(206, "Three keys; a key without a row for D is compressed until its next row")
    wait, end = 70.0, 500.0
    lanes = {"car 1": [90, 150, 210, 270, 330, 390, 450], "car 2": [100, 160, 220, 430], "car 3": [120, 180]}
    for number, (name, rows) in enumerate(lanes.items()):
        y = 24 + 50 * number
        made.text(4, y, name, "start")
        for row, after in zip(rows, [*rows[1:], end], strict=True):
            awake = min(row + wait, after)
            made.box(row, y, awake - row, kind="one", high=20)
            if awake < after:
                made.box(awake, y + 3, after - awake, kind="three", high=8)
        for row in rows:
            made.dot(row, y)
    made.axis(168, [], start=80)
    made.text(500, 186, "event time", "end", "quiet")
    made.box(84, 192, wait, kind="one", high=16)
    made.text(84 + wait + 8, 192, "D", "start")
    made.box(200, 192, 40, kind="three", high=8)
    made.text(250, 192, "compressed", "start")
    return made


@picture
def pipeline() -> Drawing:
    """Composite streams, and an update that comes too late to matter."""
    made = Drawing(
        200, "Streams a and b feed composite streams c, d and e; e gets the same update over two paths"
    )
    nodes = {"a": (30, 50), "b": (30, 140), "c": (190, 50), "d": (190, 140), "e": (350, 95)}
    for start, end in (("a", "c"), ("b", "c"), ("b", "d"), ("c", "e"), ("d", "e")):
        (x, y), (to_x, to_y) = nodes[start], nodes[end]
        made.line(x + 70, y, to_x - 6, to_y, tip=True)
    for name, (x, y) in nodes.items():
        made.box(x, y, 70, name, "box" if name in "ab" else "one", 34)
    made.text(4, 12, "sources", "start", "quiet")
    made.text(225, 12, "composite streams", kind="quiet")
    made.text(
        4,
        188,
        "an update of b reaches e twice; with the same time, the second is discarded",
        "start",
        "quiet",
    )
    return made


def city() -> str:
    """The streams of the tutorial on pipelines, drawn by windrow itself."""
    import windrow as wr
    from windrow.pipelines import Composite, Source, Space, matching
    from windrow.pipelines.drawing import draw

    space = Space("city")
    for number in range(3):
        labels = {"unit": "fahrenheit", "district": "north" if number < 2 else "south"}
        space.put(Source(f"council/t{number}", {"f": "double"}, read="*", labels=labels), by="council")
    celsius = {"c": "(t.f - 32) / 1.8"}
    frost = {"t": ["council/t0", "council/t1"]}
    space.put(Composite("ann/frost", frost, celsius, "c < 0", read="bob"), by="ann")
    hours = wr.Query(window=wr.TimeWindow("1h"), aggregates={"n": wr.Count(), "coldest": wr.Min("c")})
    space.put(Composite("bob/frosty_hours", {"x": "ann/frost"}, query=hours), by="bob")
    north = {"t": matching(district="north")}
    space.put(Composite("eve/north", north, latest={"mean": wr.Mean("f")}), by="eve")
    minute = 60_000_000
    for at in range(200):
        space.push({"stream": f"council/t{at % 3}", "ts": at * minute, "f": 20.0 + at % 19})
    return draw(space)


PICTURES["city"] = city


def query() -> str:
    """The query of the page about notebooks, as windrow draws it."""
    import windrow as wr

    query = wr.Query(window=wr.TimeWindow("30m", "10m"), aggregates={"n": wr.Count()})
    return str(query.plot(windows=5))


PICTURES["query"] = query
