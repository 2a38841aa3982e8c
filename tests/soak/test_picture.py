"""The picture of a soak is a well-formed SVG with a line and a name for each series."""
import xml.etree.ElementTree as ET

from tests.soak.picture import POINTS_MAX, Panel, draw, scale_of, thin, tick_step

SVG = "{http://www.w3.org/2000/svg}"


def test_ticks_are_round_and_about_four():
    assert [tick_step(most) for most in (1, 7, 30, 100, 950, 0.02)] == [0.25, 2, 10, 25, 250, 0.005]


def test_scale_ends_at_a_round_number():
    assert scale_of(7, False).ticks == [0, 2, 4, 6, 8]
    assert [round(scale_of(7, False).share(value), 2) for value in (0, 4, 8)] == [0, 0.5, 1]


def test_scale_by_powers_has_room_for_little_and_much():
    scale = scale_of(5000, True)
    assert scale.ticks == [1, 10, 100, 1000, 10000]
    assert [round(scale.share(value), 2) for value in (0, 1, 100, 10000)] == [0, 0, 0.5, 1]
    assert scale_of(0, True).ticks == [1, 10]


def test_long_lines_are_thinned():
    assert thin([(0, 1.0), (1, 2.0)]) == [(0, 1.0), (1, 2.0)]
    assert len(thin([(i, 5.0) for i in range(10001)])) <= POINTS_MAX


def test_each_series_is_a_line_with_its_name():
    series = {"sqlite serve": [(0, 1.0), (60, 2.0)], "redis <work>": [(0, 3.0), (60, 0.0)]}
    root = ET.fromstring(draw("Title", "and more", [Panel("Memory", series, [(0, 10)]), Panel("Nothing", {})], 60))
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 2
    words = [text.text for text in root.findall(f"{SVG}text")]
    for word in ("Title", "Memory", "Nothing", "sqlite serve", "redis <work>", "minutes"):
        assert word in words
    for line in lines:
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 1000 and 0 <= y <= float(root.get("height"))
