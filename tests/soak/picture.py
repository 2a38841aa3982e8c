"""picture.py - series over time as an SVG picture: one panel below the other, one line for each series."""
import dataclasses
import html
import math
import statistics

WIDTH, PANEL_HEIGHT, TOP = 1000, 150, 56
LEFT, RIGHT, HEAD, FOOT = 80, 170, 24, 26
COLOURS = {"sqlite": "#1b6ca8", "postgres": "#b8860b", "redis": "#b03a2e", "memory": "#3b7d4f"}
OTHER = "#555555"
TICKS = (1, 2, 2.5, 5, 10)
POINTS_MAX = 240  # of a line; of more, some beside each other become their median


@dataclasses.dataclass
class Panel:
    title: str
    series: dict  # name -> pairs of seconds and value; a name begins with its store
    bands: list = dataclasses.field(default_factory=list)  # pairs of seconds that are shaded
    by_powers: bool = False  # a step of the scale is ten times as much, and what is below 1 is drawn as 1


def tick_step(most, wanted=4):
    """A round number, so that about so many of them reach `most`."""
    raw = max(most, 1e-9) / wanted
    size = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 1.0
    while size > raw:
        size /= 10
    return next(size * tick for tick in TICKS if size * tick >= raw)


def thin(points):
    n = -(-len(points) // POINTS_MAX)
    blocks = [points[i:i + n] for i in range(0, len(points), n)] if n > 1 else [[point] for point in points]
    return [(block[0][0], statistics.median(value for _, value in block)) for block in blocks]


def text(x, y, words, anchor="start", size=12, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">'
            f'{html.escape(words)}</text>')


def style(name):
    """The colour says the store; workers, and the lower of two percentiles, are dashed."""
    colour = COLOURS.get(name.split()[0], OTHER)
    return colour, ' stroke-dasharray="5 3"' if name.endswith(("work", "p50")) else ""


@dataclasses.dataclass
class Scale:
    ticks: list
    by_powers: bool = False

    def share(self, value):
        """How far up it is: 0 to 1."""
        if self.by_powers:
            return math.log10(max(value, 1)) / math.log10(self.ticks[-1])
        return value / self.ticks[-1]


def scale_of(most, by_powers):
    if by_powers:
        return Scale([10 ** power for power in range(max(1, math.ceil(math.log10(max(most, 1)))) + 1)], True)
    step = tick_step(most)
    return Scale([step * i for i in range(int(-(-most // step)) + 1)])


def draw_panel(panel, y, seconds):
    lines = {name: thin(points) for name, points in panel.series.items()}
    most = max((value for points in lines.values() for _, value in points), default=0) or 1
    scale = scale_of(most, panel.by_powers)
    width, height = WIDTH - LEFT - RIGHT, PANEL_HEIGHT - HEAD - FOOT

    def x_of(at):
        return LEFT + width * at / seconds

    def y_of(value):
        return y + HEAD + height * (1 - scale.share(value))

    parts = [text(LEFT, y + HEAD - 8, panel.title, weight="bold")]
    parts += [f'<rect x="{x_of(a):.1f}" y="{y + HEAD}" width="{x_of(b) - x_of(a):.1f}" height="{height}" fill="#eeeeee"/>'
              for a, b in panel.bands]
    for value in scale.ticks:
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 6, y_of(value) + 4, f"{value:g}", "end", 11))
    for i, (name, points) in enumerate(sorted(lines.items())):
        colour, dash = style(name)
        path = " ".join(f"{x_of(at):.1f},{y_of(v):.1f}" for at, v in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>')
        row = y + HEAD + 6 + 13 * i
        parts.append(f'<line x1="{LEFT + width + 12}" x2="{LEFT + width + 34}" y1="{row}" y2="{row}" stroke="{colour}" '
                     f'stroke-width="2"{dash}/>')
        parts.append(text(LEFT + width + 40, row + 4, name, size=11))
    return parts


def draw(title, subtitle, panels, seconds):
    """The picture as text."""
    height = TOP + PANEL_HEIGHT * len(panels) + 34
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
             'font-family="sans-serif" fill="#222222">', f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             text(LEFT, 24, title, size=17, weight="bold"), text(LEFT, 44, subtitle, size=12)]
    for i, panel in enumerate(panels):
        parts += draw_panel(panel, TOP + PANEL_HEIGHT * i, seconds)
    minutes = seconds / 60
    step, at = tick_step(minutes, 8), 0.0
    while at <= minutes * 1.0001:
        x = LEFT + (WIDTH - LEFT - RIGHT) * at / minutes
        parts.append(text(x, height - 28, f"{at:g}", "middle", 11))
        at += step
    parts.append(text(LEFT + (WIDTH - LEFT - RIGHT) / 2, height - 10, "minutes", "middle"))
    return "\n".join([*parts, "</svg>", ""])
