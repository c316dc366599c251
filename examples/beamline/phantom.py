"""What the simulated beamline looks at: ellipsoids on a turntable, and what a parallel beam leaves of itself behind them.

Lengths are in half widths of the detector (its columns and rows run from -1 to 1), attenuation in 1 per half width. All of
it is closed form (Kak and Slaney, *Principles of Computerized Tomographic Imaging*, section 3.1), so that what comes out
of the reconstruction can be compared with what went in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.float32]

#: Turning by this angle each time covers half a turn ever more finely: a scan may stop at any frame. In radians.
GOLDEN_ANGLE = np.pi * (np.sqrt(5.0) - 1.0) / 2.0
#: Photons that a pixel counts in open beam at exposure 1.
OPEN_BEAM = 4000.0
#: What a pixel of 16 bits can say.
COUNTS_MAX = 65535


#: Frames that may be under way at each stage: the way back is as long as they take.
FRAMES_AHEAD = 4


def ahead_bytes(pixels: int) -> int:
    """The same in bytes; a window has at least 64 KiB."""
    return max(64 << 10, FRAMES_AHEAD * pixels * pixels * 2)


@dataclass(frozen=True)
class Ellipsoid:
    """One part of the sample; its axes are `a` and `b` in the slice, turned by `phi`, and `c` along the turntable's axis."""

    density: float
    x: float
    y: float
    z: float
    a: float
    b: float
    c: float
    phi: float


#: After Shepp and Logan, with contrasts that photons can tell apart.
SAMPLE = (
    Ellipsoid(1.2, 0.0, 0.0, 0.0, 0.69, 0.85, 0.90, 0.0),
    Ellipsoid(-0.7, 0.0, -0.02, 0.0, 0.62, 0.78, 0.84, 0.0),
    Ellipsoid(-0.3, 0.22, 0.0, 0.0, 0.11, 0.31, 0.50, -0.31),
    Ellipsoid(-0.3, -0.22, 0.0, 0.0, 0.16, 0.41, 0.60, 0.31),
    Ellipsoid(0.6, 0.0, 0.35, 0.0, 0.21, 0.25, 0.35, 0.0),
    Ellipsoid(0.9, -0.08, -0.60, 0.1, 0.05, 0.03, 0.10, 0.0),
    Ellipsoid(0.9, 0.06, -0.60, -0.1, 0.03, 0.06, 0.10, 0.0),
)


def angle(number: int) -> float:
    """Where the turntable stands for a frame, from 0 to pi."""
    return float(number * GOLDEN_ANGLE % np.pi)


def positions(pixels: int) -> Image:
    """Centres of so many pixels between -1 and 1."""
    return ((np.arange(pixels, dtype=np.float32) + 0.5) * (2.0 / pixels) - 1.0).astype(np.float32)


def attenuation(pixels: int, theta: float) -> Image:
    """Line integrals through the sample: rows are heights, columns the detector's width."""
    along, heights = positions(pixels), positions(pixels)
    total = np.zeros((pixels, pixels), np.float32)
    for part in SAMPLE:
        cut = np.square((heights - part.z) / part.c)
        rows = np.flatnonzero(cut < 1.0)
        turned = theta - part.phi
        reach = (part.a * np.cos(turned)) ** 2 + (part.b * np.sin(turned)) ** 2
        offset = np.square(along - (part.x * np.cos(theta) + part.y * np.sin(theta)))
        columns = np.flatnonzero(offset < reach)
        if not rows.size or not columns.size:
            continue
        box = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
        chord = np.float32(reach) * (1.0 - cut[box[0], None]) - offset[None, box[1]]
        np.maximum(chord, 0.0, out=chord)
        np.sqrt(chord, out=chord)
        chord *= np.float32(2.0 * part.density * part.a * part.b / reach)
        total[box] += chord
    return total


def truth(pixels: int, height: float) -> Image:
    """The slice at a height, as a reconstruction should have it."""
    along = positions(pixels)
    x, y = along[None, :], along[:, None]
    density = np.zeros((pixels, pixels), np.float32)
    for part in SAMPLE:
        left = 1.0 - ((height - part.z) / part.c) ** 2
        u = (x - part.x) * np.cos(part.phi) + (y - part.y) * np.sin(part.phi)
        v = (y - part.y) * np.cos(part.phi) - (x - part.x) * np.sin(part.phi)
        density += np.where((u / part.a) ** 2 + (v / part.b) ** 2 < left, np.float32(part.density), np.float32(0.0))
    return density


class Detector:
    """A camera of `pixels` x `pixels` that counts photons, with their noise."""

    def __init__(self, pixels: int, seed: int) -> None:
        self.pixels = pixels
        self._random = np.random.default_rng(seed)
        # One pattern, shifted for each frame: drawing 4 million numbers takes longer than a frame may.
        self._noise = self._random.standard_normal((pixels, pixels), dtype=np.float32)

    def frame(self, number: int, exposure: float) -> NDArray[np.uint16]:
        """What is counted at the turntable's place for this number."""
        counts = attenuation(self.pixels, angle(number))
        np.negative(counts, out=counts)
        np.exp(counts, out=counts)
        counts *= np.float32(OPEN_BEAM * exposure)
        # Of many photons Poisson's distribution is a normal one.
        shift = tuple(int(self._random.integers(self.pixels)) for _ in range(2))
        counts += np.sqrt(counts) * np.roll(self._noise, shift, (0, 1))
        np.clip(counts, 0, COUNTS_MAX, out=counts)
        return counts.astype(np.uint16)
