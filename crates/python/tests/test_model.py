"""The models give the published numbers, and every public law of the engine is there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import thalweg.errors
from thalweg import model


def test_published_numbers() -> None:
    # 000 section III-A: 100 Gbit/s over 60 ms.
    assert model.bandwidth_delay_product_bytes(100e9, 0.060) == pytest.approx(750e6)
    # 001 section 4: 93 Gbit/s is a petabyte (2^50 bytes less 11 %) a day.
    assert model.volume_bytes(93e9, model.DAY_S) == pytest.approx(1.0044e15)
    # 001 Eqs 1 and 2.
    damage = model.Damage(files=1000, file_bytes=4e9, failures=50)
    assert damage.effective_rate_bits_per_s(100e9) == pytest.approx(100e9 / 1.05)
    # Looked at again at 1 ns a byte for both: 1050 files cross, 50 are looked at, or all 1000 to find chunks.
    looks = model.Looks(read_s_per_byte=0.4e-9, check_s_per_byte=0.6e-9)
    assert damage.time_with_looks_s(100e9, looks) == pytest.approx(336.0 + 200.0)
    assert damage.effective_rate_with_looks_bits_per_s(100e9, looks) == pytest.approx(32e12 / 536.0)
    assert damage.time_by_chunk_with_looks_s(4e6, 100e9, looks) == pytest.approx(damage.time_by_chunk_s(4e6, 100e9) + 4e3)
    assert damage.time_with_looks_s(100e9, model.Looks()) == pytest.approx(damage.time_s(100e9))
    # 003 Eq 11.
    assert model.speed_score(6.0, 0.96) == pytest.approx(6.25)
    assert model.congestion_stretch(0.96, "simultaneous") == pytest.approx(6.25)
    assert (model.tier(0.5), model.tier(59.0), model.tier(61.0)) == ("real-time", "quasi-real-time", None)
    assert model.Path(bandwidth_bits_per_s=1e9, rtt_s=0.1, window_bytes=1e6).carried() == model.Carried(80e6, "window")


def test_a_fit_finds_the_costs_it_was_made_of() -> None:
    costs = model.Costs(transfer_s_per_byte=1e-8, transfer_start_s=0.5, check_s_per_byte=5e-9, once_s=3.0)
    works = [model.Work(1e12, 16.0), model.Work(4e12, 16.0)]
    measured = [model.Measurement(n, w, costs.time_s(w, n)) for w in works for n in (32.0, 256.0, 1024.0, 4096.0)]
    found = model.fit(measured)
    assert found.costs.transfer_start_s == pytest.approx(0.5, rel=1e-3)
    assert found.predict(2e12, 512.0).time_s == pytest.approx(costs.time_s(model.Work(2e12, 16.0), 512.0), rel=1e-3)
    assert found.condition() == "holds"
    assert found.optimum(1e12, 1e6).files == pytest.approx(costs.optimum(works[0], 1e6).files, rel=0.02)


def test_basin_and_advice() -> None:
    basin = model.basin([model.Stage("read", 80e9), model.Stage("path", 10e9, 0.05), model.Stage("write", 20e9)])
    assert basin.stages[basin.narrowest].name == "path" and basin.rate_bits_per_s == 10e9
    assert basin.time_s(1.25e9) == pytest.approx(1.05)
    advice = model.advise(
        bytes=2e9, bandwidth_bits_per_s=25e9, efficiency=0.8, local_s=10.0, remote_s=1.0, files_io_overhead=2.0
    )
    assert (advice.best, advice.ground) == ("stream", "quickest-as-expected")
    assert [way.way for way in advice.ways] == ["local", "stream", "file"]


def test_no_deadline_is_shorter_than_half_a_round_trip() -> None:
    far = model.advise(
        bytes=1e6, bandwidth_bits_per_s=25e9, period_s=1e-3, rtt_s=0.1, deadline_s=0.01, starts="simultaneous"
    )
    (stream,) = far.ways
    assert (far.ground, far.unlike_003) == ("too-late", "period")
    assert stream.distance_s == 0.05 and stream.time_s == pytest.approx(0.05032)
    like = model.advise(bytes=2e9, bandwidth_bits_per_s=25e9, period_s=1.0, deadline_s=10.0, starts="simultaneous")
    assert (like.ground, like.unlike_003) == ("in-time", None)


def test_p99_is_bounded_by_299_times_or_more() -> None:
    times_s = [float(at) for at in range(1, 300)]
    assert (model.tail(times_s).p99_bound_s, model.tail(times_s[1:]).p99_bound_s) == (299.0, None)


def test_advice_promises_nothing_by_a_law_that_does_not_hold() -> None:
    def holds(condition: model.Condition, bound: bool = False, score: float | None = 1.5) -> bool | None:
        advice = model.advise(
            bytes=2e9,
            bandwidth_bits_per_s=25e9,
            is_efficiency_bound=bound,
            deadline_s=10.0,
            score=score,
            files_prediction=model.Prediction(1.0, 0.9, 1.1),
            files_condition=condition,
        )
        return next(way.holds for way in advice.ways if way.way == "file")

    assert holds("holds") is True
    assert not holds("broken") and not holds("holds", bound=True)
    # Nor where nobody knows how slow transfers of this path get.
    assert not holds("holds", score=None)
    lossy = model.Path(bandwidth_bits_per_s=1e9, rtt_s=0.1, loss=0.02).carried()
    assert lossy.by == "loss" and lossy.is_beyond_law


def test_what_a_law_cannot_be_asked_says_the_range() -> None:
    with pytest.raises(ValueError, match="must be"):
        model.window_rate_bits_per_s(-1.0, 0.1)
    with pytest.raises(ValueError, match="finite"):
        model.window_rate_bits_per_s(float("inf"), 0.1)
    with pytest.raises(ValueError, match="reno, cubic or bbr"):
        model.loss_window_segments("vegas", 1e-4, 0.1)  # type: ignore[arg-type]


def test_every_law_of_the_engine_can_be_asked() -> None:
    """A public function of `mover::model` that no law names is missing here: but for what `predict` asks for, and parts."""
    asked_by_predict = {"prediction.rs", "student.rs", "testing.rs", "tree.rs"}
    # A plan's parts, and what an advice asks of the path that it knows.
    parts = {"bound", "limit_s", "nearest_rank", "whole_bandwidth_delay_product_bytes"}
    parts |= {"bandwidth_for", "streams_for", "window_for"}
    root = Path(__file__).parents[2]
    told = (root / "python/src/law.rs").read_text()
    missing = set()
    files = {file.name: file for file in (root / "mover/src/model").glob("*.rs")}
    assert asked_by_predict < files.keys()
    for name in files.keys() - asked_by_predict:
        text = files[name].read_text().split("#[cfg(test)]")[0]
        laws = re.findall(r"^ *pub fn (\w+)", text, re.MULTILINE)
        missing.update(law for law in laws if not re.search(rf"\b{law}\b", told))
    assert missing == parts


def test_docstrings_have_units_and_examples_hold() -> None:
    assert doctest.testmod(model).failed == 0
    for name in model.__all__:
        thing = getattr(model, name)
        if callable(thing) and not hasattr(thing, "__args__"):
            assert thing.__doc__, name
    assert all(getattr(thalweg.errors, name).__doc__ for name in thalweg.errors.__all__)


def test_numbers_and_arrays_of_numpy_are_quantities() -> None:
    assert model.volume_time_s(np.float32(8), np.int64(8)) == 8.0
    assert model.tail(np.array([1, 2, 3], np.float32)).max_s == 3.0  # type: ignore[arg-type]
    basin = model.basin([model.Stage("read", np.int64(80)), model.Stage("path", np.float32(10))])
    assert basin.rate_bits_per_s == 10.0
    with pytest.raises(ValueError, match="no number"):
        model.volume_time_s(np.zeros(2), 8.0)  # type: ignore[arg-type]


def test_a_result_beyond_the_range_of_numbers_is_an_error() -> None:
    with pytest.raises(ValueError, match="volume.time_s"):
        model.volume_time_s(bytes=1e300, rate_bits_per_s=1e-300)


def test_a_fit_is_flat_where_no_number_of_files_is_better() -> None:
    costs = model.Costs(transfer_s_per_byte=1e-8, transfer_start_s=0.5, check_s_per_byte=5e-9, once_s=3.0)
    works = [model.Work(1e12, 16.0), model.Work(4e12, 16.0)]
    measured = [model.Measurement(n, w, costs.time_s(w, n)) for w in works for n in (32.0, 256.0, 1024.0, 4096.0)]
    assert model.fit(measured).is_flat(1e12, 4096.0) is False
    off = (1.00, 1.01, 0.99, 1.00)
    even = [model.Measurement(n, works[0], 100.0 * by) for n, by in zip((128.0, 512.0, 2048.0, 8192.0), off, strict=True)]
    even += [model.Measurement(m.files, m.work, 100.0 * by) for m, by in zip(even, reversed(off), strict=True)]
    assert model.fit(even).is_flat(1e12, 8192.0) is True
