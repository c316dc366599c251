"""What the far side makes of frames while they come: one slice, reconstructed by filtered back-projection.

Each frame costs one filtered line (Kak and Slaney, section 3.3: the ramp filter, without its wrap-around) and one smear
over the image. The image is right after any number of frames, and better after more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phantom import Image, positions

#: Columns at each side that no part of the sample ever covers: what they count is the open beam.
OPEN_SHARE = 0.05


class Slice:
    """The slice in the middle, with `image_pixels` x `image_pixels`."""

    def __init__(self, detector_pixels: int, image_pixels: int) -> None:
        # Columns that make one bin: as fine as the image, and a divisor.
        self._fold = max(fold for fold in range(1, detector_pixels + 1) if _folds(detector_pixels, image_pixels, fold))
        self._bins = detector_pixels // self._fold
        self._row = detector_pixels // 2
        along = positions(image_pixels)
        self._x, self._y = along[None, :], along[:, None]
        self._inside = np.square(self._x) + np.square(self._y) <= 1.0
        self._sum = np.zeros((image_pixels, image_pixels), np.float32)
        self._ramp = _ramp(self._bins)
        self.lines: list[tuple[float, Image]] = []
        #: Counts of the open beam in the last frame, a pixel.
        self.open_beam = 0.0
        #: Signal over noise of the open beam in the last frame.
        self.open_beam_snr = 0.0

    def add(self, frame: NDArray[np.uint16], theta: float) -> None:
        """Takes a frame's line, at this place of the turntable."""
        rows = slice(self._row - self._fold // 2, self._row + max(1, (self._fold + 1) // 2))
        line = frame[rows].mean(axis=0, dtype=np.float32)
        edge = max(1, int(len(line) * OPEN_SHARE / 2))
        open_pixels = np.concatenate([frame[:, :edge].ravel(), frame[:, -edge:].ravel()])
        self.open_beam = float(open_pixels.mean())
        self.open_beam_snr = self.open_beam / max(float(open_pixels.std()), 1e-6)
        binned = line.reshape(self._bins, self._fold).mean(axis=1)
        integrals = -np.log(np.maximum(binned, 0.5) / np.float32(self.open_beam))
        self.lines.append((theta, integrals.astype(np.float32)))
        size = len(self._ramp)
        spectrum = np.fft.rfft(integrals, size) * np.abs(np.fft.rfft(self._ramp))
        filtered = np.fft.irfft(spectrum, size)[: self._bins].astype(np.float32) * np.float32(self._bins / 2)
        at = (self._x * np.cos(theta) + self._y * np.sin(theta) + 1.0) * (self._bins / 2) - 0.5
        self._sum += np.interp(at.ravel(), np.arange(self._bins), filtered).reshape(at.shape).astype(np.float32)

    def image(self) -> Image:
        """The slice as far as it is known: attenuation for each half width."""
        share = np.float32(np.pi / max(1, len(self.lines)))
        return np.where(self._inside, self._sum * share, np.float32(0.0))

    def sinogram(self) -> Image:
        """The lines that came, by their angles."""
        return np.array([line for _, line in sorted(self.lines, key=lambda line: line[0])], np.float32)


def _folds(detector_pixels: int, image_pixels: int, fold: int) -> bool:
    return detector_pixels % fold == 0 and (fold == 1 or detector_pixels // fold >= image_pixels)


def _ramp(bins: int) -> Image:
    """The ramp filter's answer to one pulse, at a spacing of one bin (Kak and Slaney, equation 61), padded so that nothing
    wraps around."""
    size = 1 << (2 * bins - 1).bit_length()
    answer = np.zeros(size, np.float32)
    answer[0] = 0.25
    odd = np.arange(1, size // 2, 2)
    answer[odd] = answer[-odd] = -1.0 / np.square(np.pi * odd)
    return answer


def likeness(image: Image, truth: Image) -> float:
    """The correlation of two images: 1 if one is the other."""
    return float(np.corrcoef(image.ravel(), truth.ravel())[0, 1])


def change(before: Image, now: Image) -> float:
    """How much an image still changes, as a share of itself."""
    return float(np.linalg.norm(now - before) / max(float(np.linalg.norm(now)), 1e-9))
