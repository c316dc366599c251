"""The picture of what arrived: the sinogram, the slice made of it, the slice as it is, and how long frames took."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from phantom import Image
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

if TYPE_CHECKING:
    from station import Station

PANEL = 360
MARGIN = 24
HEAD = 28
CURVE = 120
INK, QUIET, LINE, PAPER = "#1a1a1a", "#666666", "#0072b2", "#ffffff"


def draw(path: Path, station: Station, truth: Image, told: dict[str, Any]) -> None:
    """Writes it as PNG."""
    panels = [
        ("sinogram as it arrived", station.slice.sinogram()),
        (f"slice from {told['frames']} frames", station.slice.image()),
        ("slice as it is", truth),
    ]
    lines = words(told)
    width = MARGIN + len(panels) * (PANEL + MARGIN)
    height = HEAD + PANEL + MARGIN + HEAD + CURVE + MARGIN + len(lines) * 22 + MARGIN
    picture = Pillow.new("RGB", (width, height), PAPER)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    for number, (title, image) in enumerate(panels):
        left = MARGIN + number * (PANEL + MARGIN)
        pen.text((left, 7), title, INK, font)
        picture.paste(panel(image), (left, HEAD))
    top = HEAD + PANEL + MARGIN
    slowest = max(station.latencies_s, default=0.0)
    pen.text((MARGIN, top), f"from made to received, each frame; the top is {slowest * 1e3:.1f} ms", INK, font)
    curve(pen, station.latencies_s, (MARGIN, top + HEAD, width - MARGIN, top + HEAD + CURVE))
    for number, line in enumerate(lines):
        pen.text((MARGIN, top + HEAD + CURVE + MARGIN + number * 22), line, INK, font)
    picture.save(path)


def words(told: dict[str, Any]) -> list[str]:
    """The figures of a run, as lines."""
    lost = sum(one["end"] - one["first"] for one in told["lost"])
    lines = [
        f"{told['frames']} frames, {told['bytes'] / 1e6:.1f} MB in {told['seconds']:.1f} s "
        f"({told['gbit_per_s']:.2f} Gbit/s); lost: {lost}",
        f"sets complete: {told['sets_complete']}, not: {len(told['sets_incomplete'])}; "
        f"later than their deadline: {told['late']}, not known of: {told['late_unknown']}",
    ]
    if (tail := told["latency"]) is not None:
        ms = {name: tail[f"{name}_ns"] / 1e6 for name in ("p50", "p90", "p99", "max", "bound")}
        lines.append(
            f"latency P50 {ms['p50']:.1f}, P90 {ms['p90']:.1f}, P99 {ms['p99']:.1f}, longest {ms['max']:.1f} ms "
            f"(clocks: within {ms['bound']:.2f} ms)"
        )
    why = "asked to stop: good enough" if told["stop_asked"] else "ran to its last frame"
    lines.append(
        f"exposure {told['first_exposure']:.2f} to {told['last_exposure']:.2f} at the far side's wish; {why}; "
        f"likeness to the sample {told['likeness']:.3f}"
    )
    return lines


def panel(image: Image) -> Pillow.Image:
    """In grey, from its 1st to its 99th percent."""
    if image.size == 0:
        return Pillow.new("RGB", (PANEL, PANEL), QUIET)
    low, high = np.percentile(image, (1, 99))
    grey = np.clip((image - low) / max(float(high - low), 1e-9), 0, 1) * 255
    return Pillow.fromarray(grey.astype(np.uint8)).resize((PANEL, PANEL), Pillow.Resampling.BILINEAR).convert("RGB")


def curve(pen: ImageDraw.ImageDraw, values: list[float], box: tuple[int, int, int, int]) -> None:
    """One bar for each value; the largest fills the box."""
    left, top, right, bottom = box
    pen.line((left, bottom, right, bottom), QUIET)
    most = max(values, default=0.0)
    for number, value in enumerate(values):
        x = left + (number + 0.5) * (right - left) / len(values)
        pen.line((x, bottom, x, bottom - (bottom - top) * value / max(most, 1e-12)), LINE)
