"""Records by state over time, as SVG: stacked steps, one step for each batch."""

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 360, 56, 44, 44, 110
STATES = (("succeeded", "#2a7f62"), ("waiting", "#e0a030"), ("dead", "#b03a48"))


def draw(history):
    """``history`` has a row (minute, succeeded, waiting, dead) for each batch; succeeded and dead are of the batch."""
    points, succeeded, dead = [], 0, 0
    for minute, new_results, waiting, new_dead in history:
        succeeded, dead = succeeded + new_results, dead + new_dead
        points.append((minute, (succeeded, waiting, dead)))
    last = max(points[-1][0] * 1.05, 1)
    most = max(sum(values) for _minute, values in points)

    def x(minute):
        return LEFT + (WIDTH - LEFT - RIGHT) * minute / last

    def y(records):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * records / most

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">Records by state, after each batch</text>',
    ]
    base = [0] * len(points)
    for i, (name, colour) in enumerate(STATES):
        top = [low + values[i] for low, (_minute, values) in zip(base, points)]
        minutes = [minute for minute, _values in points] + [last]
        upper = _steps([x(m) for m in minutes], [y(v) for v in top])
        lower = _steps([x(m) for m in minutes], [y(v) for v in base])
        outline = " ".join(f"{a:.1f},{b:.1f}" for a, b in upper + lower[::-1])
        parts.append(f'<polygon points="{outline}" fill="{colour}"/>')
        middle = 18 * (len(STATES) - i) + TOP
        parts.append(f'<rect x="{WIDTH - RIGHT + 12}" y="{middle - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 30}" y="{middle}">{name}</text>')
        base = top
    for minute, _values in points:
        parts.append(f'<line x1="{x(minute):.1f}" x2="{x(minute):.1f}" y1="{y(0)}" y2="{y(0) + 5}" stroke="black"/>')
    parts += [f'<text x="{LEFT - 8}" y="{y(n) + 4:.1f}" text-anchor="end">{n}</text>' for n in (0, most // 2, most)]
    for minute in range(0, int(last) + 1, 10):
        parts.append(f'<text x="{x(minute):.1f}" y="{y(0) + 20}" text-anchor="middle">{minute}</text>')
    parts.append(
        f'<text x="{x(last / 2):.1f}" y="{HEIGHT - 6}" text-anchor="middle">minutes; a mark for each batch</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _steps(across, heights):
    """The corners of a line that keeps each height until the next one begins."""
    corners = []
    for i, height in enumerate(heights):
        corners += [(across[i], height), (across[i + 1], height)]
    return corners
