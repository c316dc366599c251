//! `frames`: a scan of a detector, gathered into files that are copied as each is finished, or streamed as it is made
//! (003 section 4.2, Fig 4). How long after the last frame was made is all of it there, verified and durable?
//!
//! A thread makes frames at a steady rate. What is gathered into N files is copied by one `thalweg cp` for each, one
//! after another. A file for each frame goes in two more ways, which users have for many files: at most [`AT_ONCE`]
//! such copies at once, and one `thalweg watch` that copies each file whose marker is there, by one link. A stream goes
//! through a pipe into `thalweg stream`; files that are streamed are watched by one; frames go through `thalweg frames`
//! from memory to memory. The law beside them ([`Scan`]) knows two numbers that were measured before: the rate of one
//! large file, and what a file of one frame costs besides its bytes.

use super::{
    MIB, OVER_A_PATH, Planned, Suite, Takes, VERIFIED, Values, encrypted, of_copy, path_wish, scaled,
    seconds, size, testbed_kind,
};
use crate::bench::network::{Host, PathWish, Testbed};
use crate::bench::record::{PathKind, Sample};
use crate::bench::statistics::median;
use crate::bench::workspace::{Copied, Daemon, Workspace};
use crate::bench::{Bench, Prepared, Wishes};
use crate::testbed::spec::TUNED;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::dataset::{DatasetSpec, Made};
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path, of_io};
use thalweg_mover::model::frames::Scan;

pub const SUITE: Suite = Suite {
    name: "frames",
    asks: "how long after its last frame is a scan there, in files or as a stream? (003 Fig 4)",
    runs: 3,
    budget_bytes: FRAMES * FRAME_BYTES_SCALED,
    takes: Takes { is_path_by_rtt: true, time: Values::One, max_files: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed_by_rtt,
    plan,
    run,
};

/// Of a scan (003 section 4.2).
const FRAMES: u64 = 1440;
/// 2048 x 2048 pixels of two bytes.
const FRAME_BYTES: u64 = 8 * MIB;
/// Unless a larger --budget is given.
const FRAME_BYTES_SCALED: u64 = 64 << 10;
/// Between two frames, as 003 has it; where frames are smaller, a tenth.
const PERIOD: Duration = Duration::from_millis(33);
/// The lower of the two rates of 003 is a tenth of the higher.
const SLOWER: u32 = 10;
/// How many files a scan is gathered into.
const FILES: [u64; 4] = [1, 10, 144, 1440];
/// Copies at the same time, where several are: as many as a watch has unless asked for others.
const AT_ONCE: usize = 4;
/// Behind the name of a file: it is finished.
const FINISHED: &str = ".finished";
/// Of the line, where there is one.
const RATE_BITS_PER_S: u64 = 2 * super::GBIT;
/// Of a scan that is made only to warm up, at most.
const WARM_UP_BYTES_MAX: u64 = 1 << 30;
/// Copies that the law's two numbers are medians of.
const TRIALS: usize = 3;
/// Says that nothing more comes.
const MARKER: &str = "over";

/// A scan, as it fits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shape {
    frames: u64,
    frame_bytes: u64,
    /// At the higher rate.
    period: Duration,
}

impl Shape {
    fn of(wishes: &Wishes) -> Shape {
        let frames = FRAMES.min(wishes.files_max());
        let frame_bytes = (SUITE.budget_bytes(wishes) / frames).clamp(1, FRAME_BYTES);
        let usual = if frame_bytes == FRAME_BYTES { PERIOD } else { PERIOD / 10 };
        let frames_u32 = u32::try_from(frames).unwrap_or(u32::MAX);
        let period = wishes.time.map_or(usual, |time| time / frames_u32);
        Shape { frames, frame_bytes, period }
    }

    fn bytes(&self) -> u64 {
        self.frames * self.frame_bytes
    }

    /// Whether a scan is made once before those that count. What warms up are the programs: not worth a scan at the
    /// lower rate, nor one of minutes.
    fn warms_up(&self, period: Duration) -> bool {
        period == self.period && self.bytes() <= WARM_UP_BYTES_MAX
    }

    /// The frames of each of so many files.
    fn gathered(&self, files: u64) -> Vec<std::ops::Range<u64>> {
        let edge = |file: u64| file * self.frames / files;
        (0..files).map(|file| edge(file)..edge(file + 1)).collect()
    }
}

/// How a scan travels.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// In so many files, each copied when it is finished.
    Files(u64),
    /// In as many files as frames, several copied at the same time.
    AtOnce,
    /// In as many files as frames, copied by one who watches for them.
    Watched,
    /// In as many files as frames, streamed as they are made.
    Tree,
    /// Through a pipe, into a file.
    Stream,
    /// Through a pipe, as frames, to a consumer that keeps none of them.
    Frames,
}

impl Way {
    fn name(self, shape: &Shape) -> String {
        match self {
            Way::Files(1) => "1 file".to_owned(),
            Way::Files(files) => format!("{files} files"),
            Way::AtOnce => format!("{} files, {AT_ONCE} at once", shape.frames),
            Way::Watched => format!("{} files, watched", shape.frames),
            Way::Tree => format!("{} files, streamed", shape.frames),
            Way::Stream => "stream".to_owned(),
            Way::Frames => "frames, memory to memory".to_owned(),
        }
    }

    fn files(self, shape: &Shape) -> u64 {
        match self {
            Way::Files(files) => files,
            Way::AtOnce | Way::Watched | Way::Tree => shape.frames,
            Way::Stream => 1,
            Way::Frames => 0,
        }
    }
}

struct Case {
    period: Duration,
    way: Way,
}

impl Case {
    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample, shape: &Shape, path: Option<&PathWish>) -> Sample {
        let sample = Sample { series: self.way.name(shape), ..sample };
        let sample = sample.with("period", seconds(self.period.as_secs_f64()));
        match path {
            Some(path) => sample.with("rtt", seconds(path.rtt.as_secs_f64())),
            None => sample,
        }
    }
}

fn plan(wishes: &Wishes) -> Vec<Planned> {
    let (shape, path) = (Shape::of(wishes), path(wishes));
    let named = |case: &Case| case.told_in(Sample::default(), &shape, path.as_ref());
    cases(&shape).iter().map(|case| Planned::of(named(case), Vec::new())).collect()
}

fn cases(shape: &Shape) -> Vec<Case> {
    let mut cases = Vec::new();
    for period in [shape.period, shape.period * SLOWER] {
        let files = FILES.into_iter().filter(|files| *files <= shape.frames).map(Way::Files);
        let ways = files.chain([Way::AtOnce, Way::Watched, Way::Tree, Way::Stream, Way::Frames]);
        cases.extend(ways.map(|way| Case { period, way }));
    }
    cases
}

fn path(wishes: &Wishes) -> Option<PathWish> {
    wishes.rtts.first().map(|rtt| path_wish(wishes, *rtt, RATE_BITS_PER_S))
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let path = path(wishes);
    let shape = Shape::of(wishes);
    let mut changes = Vec::new();
    if shape.frames != FRAMES {
        changes.push(scaled("frames of a scan", "1440 (003 section 4.2)", shape.frames.to_string()));
    }
    if shape.frame_bytes != FRAME_BYTES {
        changes.push(scaled("size of a frame", "8 MiB: 2048 x 2048 of 2 bytes", size(shape.frame_bytes)));
    }
    if shape.period != PERIOD {
        let ms = |period: Duration| period.as_secs_f64() * 1e3;
        let to = format!("{:.3} and {:.3} ms", ms(shape.period), ms(shape.period * SLOWER));
        changes.push(scaled("time between frames", "33 and 330 ms", to));
    }
    Ok(Prepared {
        path: path.map_or(PathKind::Loopback, |path| testbed_kind(&path)),
        encryption: encrypted(),
        verification: format!("{VERIFIED}; then compared with the seed"),
        changes,
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let shape = Shape::of(bench.wishes);
    bench.workspace.needs(2 * shape.bytes())?;
    let testbed =
        path(bench.wishes).map(|path| Testbed::up(&bench.workspace, "frames", &path, TUNED)).transpose()?;
    let (client, server) = testbed.as_ref().map(|testbed| (&testbed.left, &testbed.right)).unzip();
    let daemon = bench.workspace.daemon(server)?;
    let spec = DatasetSpec {
        files: 1,
        sizes: vec![(shape.bytes(), 1)],
        seed: bench.wishes.seed(),
        ..DatasetSpec::default()
    };
    let stop = bench.wishes.stop.as_ref();
    let stand =
        Stand { made: spec.file(0), shape, daemon, client, server, stop, channels: AtomicU32::new(0) };
    let law = stand.trials(bench)?;
    bench.take_turns(cases(&shape), |bench, run, case| {
        if run == 0 && !shape.warms_up(case.period) {
            return Ok(None);
        }
        let source = bench.workspace.path("source");
        fs::create_dir_all(&source).map_err(|error| of_io("make a directory", &error))?;
        let measure = || stand.measure(bench, case, &source, &law);
        let sample = match &testbed {
            Some(testbed) => super::over(testbed, measure)?,
            None => measure()?,
        };
        let sample = case.told_in(sample, &shape, path(bench.wishes).as_ref());
        stand.compare(case.way)?;
        bench.workspace.remove(&source)?;
        bench.workspace.remove(&stand.daemon.path("copy"))?;
        Ok(Some(sample))
    })
}

/// The two numbers of the law.
struct Law {
    rate_bits_per_s: f64,
    file_start_s: f64,
}

/// Everything that a scan needs.
struct Stand<'a> {
    /// All frames behind each other.
    made: Made,
    shape: Shape,
    daemon: Daemon,
    client: Option<&'a Host>,
    server: Option<&'a Host>,
    stop: &'a AtomicBool,
    /// Channels so far: what an earlier scan was known by is none of a later one's business.
    channels: AtomicU32,
}

impl Stand<'_> {
    fn cp(&self, workspace: &Workspace, from: &Path, to: &str) -> Result<Copied> {
        let words =
            ["cp".to_owned(), from.display().to_string(), self.daemon.url(to), "--no-tune".to_owned()];
        workspace.copy(self.client, Some(&self.daemon), &words)
    }

    /// Copies one frame, and the whole scan, alone.
    fn trials(&self, bench: &Bench<'_>) -> Result<Law> {
        let failed = |error: io::Error| of_io("make a file", &error);
        let file = bench.workspace.path("trial");
        let took = |frames: u64| -> Result<f64> {
            self.write(&file, 0..frames).map_err(failed)?;
            let mut times = Vec::new();
            for _ in 0..TRIALS {
                times.push(self.cp(&bench.workspace, &file, "trial")?.wall_s);
                bench.workspace.remove(&self.daemon.path("trial"))?;
            }
            bench.workspace.remove(&file)?;
            Ok(median(&times))
        };
        let (whole_s, file_start_s) = (took(self.shape.frames)?, took(1)?);
        let moving_s = (whole_s - file_start_s).max(1e-3);
        Ok(Law { rate_bits_per_s: self.shape.bytes() as f64 * 8.0 / moving_s, file_start_s })
    }

    fn measure(&self, bench: &Bench<'_>, case: &Case, source: &Path, law: &Law) -> Result<Sample> {
        let began = Instant::now();
        let clock = Clock { began, period: case.period };
        let mut there: Option<Instant> = None;
        let (cpu_s, late_s) = match case.way {
            Way::Files(files) => self.in_files(&bench.workspace, (files, 1), source, &clock)?,
            Way::AtOnce => self.in_files(&bench.workspace, (self.shape.frames, AT_ONCE), source, &clock)?,
            Way::Watched => {
                let (watched, last) = self.watched(&bench.workspace, source, &clock)?;
                there = Some(last);
                watched
            }
            Way::Tree => self.as_tree(bench, source, &clock)?,
            Way::Frames => self.as_frames(&bench.workspace, &clock)?,
            Way::Stream => {
                let words = ["stream".to_owned(), "-".to_owned(), self.daemon.url("copy")];
                let feed = |mut pipe: ChildStdin| {
                    self.make(0..self.shape.frames, &clock, |_, frame| pipe.write_all(frame))
                };
                let (copied, late_s) = bench.workspace.fed(self.client, Some(&self.daemon), &words, feed)?;
                (copied.cpu_s, late_s)
            }
        };
        let wall_s = there.map_or_else(|| began.elapsed(), |there| there - began).as_secs_f64();
        let scan = Scan {
            frames: self.shape.frames as f64,
            frame_bytes: self.shape.frame_bytes as f64,
            period_s: case.period.as_secs_f64(),
            rate_bits_per_s: law.rate_bits_per_s,
            file_start_s: law.file_start_s,
        };
        let predicted = match case.way {
            Way::Files(files) => scan.in_files_s(files as f64),
            // As if they came one after another.
            Way::AtOnce | Way::Watched => scan.in_files_s(scan.frames),
            Way::Tree | Way::Stream | Way::Frames => scan.streamed_s(),
        };
        let refused = |error| Failure::new(FailureKind::Internal, "ask the law of frames", error);
        let predicted_s = predicted.map_err(refused)?;
        let copied = Copied { wall_s, cpu_s, finished: serde_json::Value::Null };
        let sample = of_copy("", &copied, self.shape.bytes(), case.way.files(&self.shape))
            .measured("after_last_frame", wall_s - scan.acquisition_s(), "s")
            .measured("detector_held_up", late_s, "s")
            .predicted("wall_s", predicted_s, "s");
        // What ends a stream, the law does not know, nor what several at once, or a watch, save.
        Ok(match case.way {
            Way::Files(_) => sample.predicted("after_last_frame", predicted_s - scan.acquisition_s(), "s"),
            _ => sample,
        })
    }

    /// One `thalweg cp` for each file that is finished, so many at the same time.
    fn in_files(
        &self,
        workspace: &Workspace,
        (files, at_once): (u64, usize),
        source: &Path,
        clock: &Clock,
    ) -> Result<(Option<f64>, f64)> {
        fs::create_dir_all(self.daemon.path("copy")).map_err(|error| of_io("make a directory", &error))?;
        let before_s = workspace.cpu_s();
        // A detector does not wait for copies; the suite says how many files there are.
        let (finished, hears) = mpsc::channel::<PathBuf>();
        let hears = Arc::new(Mutex::new(hears));
        let failed = &AtomicBool::new(false);
        // The scope has both ends: a copy that fails ends the detector too.
        std::thread::scope(move |scope| {
            let detector = scope.spawn(move || -> io::Result<f64> {
                let mut late_s: f64 = 0.0;
                for (number, frames) in self.shape.gathered(files).into_iter().enumerate() {
                    let path = source.join(name(number as u64));
                    let mut file = File::create(&path)?;
                    late_s = self.make(frames, clock, |_, frame| file.write_all(frame))?;
                    if finished.send(path).is_err() {
                        break;
                    }
                }
                Ok(late_s)
            });
            let copy = move |hears: Arc<Mutex<mpsc::Receiver<PathBuf>>>| -> Result<()> {
                let next = || hears.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
                while let Some(path) = next().filter(|_| !failed.load(Ordering::Relaxed)) {
                    let to = format!("copy/{}", path.file_name().unwrap_or_default().display());
                    self.cp(workspace, &path, &to).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                }
                Ok(())
            };
            let copying: Vec<_> = (0..at_once).map(|_| hears.clone()).collect();
            drop(hears);
            let copying: Vec<_> = copying.into_iter().map(|hears| scope.spawn(move || copy(hears))).collect();
            let lost = |_| Failure::new(FailureKind::Internal, "copy files", "a thread panicked");
            let copied: Vec<_> = copying.into_iter().map(|copying| copying.join()).collect();
            for copied in copied {
                copied.map_err(lost)??;
            }
            let late_s = made(detector.join())?;
            Ok((Some(workspace.cpu_s() - before_s), late_s))
        })
    }

    /// A file for each frame, which one `thalweg watch` copies when its marker is there; and when the last was.
    fn watched(
        &self,
        workspace: &Workspace,
        source: &Path,
        clock: &Clock,
    ) -> Result<((Option<f64>, f64), Instant)> {
        fs::create_dir_all(self.daemon.path("copy")).map_err(|error| of_io("make a directory", &error))?;
        let words = [
            "watch".to_owned(),
            source.display().to_string(),
            self.daemon.url("copy"),
            "--marker".to_owned(),
            FINISHED.to_owned(),
        ];
        // What an earlier watch knows is none of this one's business.
        let who = format!("watch-{}", self.channels.fetch_add(1, Ordering::Relaxed));
        let before_s = workspace.cpu_s();
        let is_over = AtomicBool::new(false);
        let mut watcher = workspace.watcher(&who, self.client, &self.daemon, &words)?;
        let (last, late_s) = std::thread::scope(|scope| {
            let detector = scope.spawn(|| -> io::Result<f64> {
                self.make(0..self.shape.frames, clock, |number, frame| {
                    if is_over.load(Ordering::Relaxed) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    let path = source.join(name(number));
                    fs::write(&path, frame)?;
                    File::create(path.with_added_extension(&FINISHED[1..])).map(drop)
                })
            });
            let last = watcher.wait(self.shape.frames, self.stop);
            // One that ended early ends the detector too.
            is_over.store(true, Ordering::Relaxed);
            let late_s = made(detector.join());
            Ok::<_, Failure>((last?, late_s?))
        })?;
        drop(watcher);
        Ok(((Some(workspace.cpu_s() - before_s), late_s), last))
    }

    /// A file for each frame, in a directory that one `thalweg stream` watches.
    fn as_tree(&self, bench: &Bench<'_>, source: &Path, clock: &Clock) -> Result<(Option<f64>, f64)> {
        let words = [
            "stream".to_owned(),
            format!("{}/", source.display()),
            self.daemon.url("copy"),
            "--until-marker".to_owned(),
            MARKER.to_owned(),
        ];
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let detector = scope.spawn(|| -> io::Result<f64> {
                let late_s = self.make(0..self.shape.frames, clock, |number, frame| {
                    if is_over.load(Ordering::Relaxed) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    fs::write(source.join(name(number)), frame)
                });
                // Where that failed, too: the stream would wait for more.
                let marked = File::create(source.join(MARKER));
                let late_s = late_s?;
                marked.map(|_| late_s)
            });
            let copied = bench.workspace.copy(self.client, Some(&self.daemon), &words);
            // One that ended early ends the detector too.
            is_over.store(true, Ordering::Relaxed);
            let late_s = made(detector.join());
            Ok((copied?.cpu_s, late_s?))
        })
    }

    /// Pushed to a channel, and pulled out of it beside the daemon.
    fn as_frames(&self, workspace: &Workspace, clock: &Clock) -> Result<(Option<f64>, f64)> {
        let number = self.channels.fetch_add(1, Ordering::Relaxed);
        let place = self.daemon.url(&format!("scan-{number}"));
        let pull = ["frames", "pull", &place, "null:"].map(str::to_owned);
        let bytes = self.shape.frame_bytes.to_string();
        let push = ["frames", "push", "-", &place, "--frame-bytes", &bytes].map(str::to_owned);
        let before_s = workspace.cpu_s();
        let late_s = std::thread::scope(|scope| {
            let pulling = scope.spawn(|| workspace.copy(self.server, Some(&self.daemon), &pull));
            let feed = |mut pipe: ChildStdin| {
                self.make(0..self.shape.frames, clock, |_, frame| pipe.write_all(frame))
            };
            let fed = workspace.fed(self.client, Some(&self.daemon), &push, feed);
            let lost = |_| Failure::new(FailureKind::Internal, "pull frames", "a thread panicked");
            let pulled = pulling.join().map_err(lost)?;
            let ((_, late_s), pulled) = (fed?, pulled?);
            let (frames, bytes) = (pulled.number("frames"), pulled.number("bytes"));
            if frames != self.shape.frames as f64 || bytes != self.shape.bytes() as f64 {
                let cause = format!("{frames} frames with {bytes} bytes arrived");
                return Err(Failure::new(FailureKind::Damage, "pull frames", cause));
            }
            Ok::<_, Failure>(late_s)
        })?;
        // Of both: the one that pulled may have ended before the other had been waited for.
        Ok((Some(workspace.cpu_s() - before_s), late_s))
    }

    /// Makes frames when they are due; how late the last one was handed over, in seconds.
    fn make(
        &self,
        frames: std::ops::Range<u64>,
        clock: &Clock,
        mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<f64> {
        let mut frame = vec![0; usize::try_from(self.shape.frame_bytes).unwrap_or(usize::MAX)];
        let mut late_s = 0.0;
        for number in frames {
            self.made.fill(number * self.shape.frame_bytes, &mut frame);
            let due = clock.due(number);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            take(number, &frame)?;
            late_s = due.elapsed().as_secs_f64();
        }
        Ok(late_s)
    }

    fn write(&self, path: &Path, frames: std::ops::Range<u64>) -> io::Result<()> {
        let mut file = File::create(path)?;
        let at_once = Clock { began: Instant::now(), period: Duration::ZERO };
        self.make(frames, &at_once, |_, frame| file.write_all(frame)).map(drop)
    }

    /// Whether what stands at the destination is what was made.
    fn compare(&self, way: Way) -> Result<()> {
        let copy = self.daemon.path("copy");
        let files = match way {
            // Held against its digest when it came; nobody kept it.
            Way::Frames => Vec::new(),
            Way::Stream => vec![(copy, 0..self.shape.frames)],
            _ => {
                let gathered = self.shape.gathered(way.files(&self.shape)).into_iter().enumerate();
                gathered.map(|(number, frames)| (copy.join(name(number as u64)), frames)).collect()
            }
        };
        for (path, frames) in files {
            let is_same = self.is_same(&path, frames).map_err(|error| of_io("read a copy", &error))?;
            if !is_same {
                let cause = "it is not what was made";
                let failure = Failure::new(FailureKind::Damage, "compare a copy with its seed", cause);
                return Err(at_path(failure, &path));
            }
        }
        Ok(())
    }

    fn is_same(&self, path: &Path, frames: std::ops::Range<u64>) -> io::Result<bool> {
        let mut file = File::open(path)?;
        let bytes = usize::try_from(self.shape.frame_bytes).unwrap_or(usize::MAX);
        let (mut frame, mut found) = (vec![0; bytes], vec![0; bytes]);
        let wanted = (frames.end - frames.start) * self.shape.frame_bytes;
        if file.metadata()?.len() != wanted {
            return Ok(false);
        }
        for number in frames {
            self.made.fill(number * self.shape.frame_bytes, &mut frame);
            file.read_exact(&mut found)?;
            if frame != found {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// When frames are made.
struct Clock {
    began: Instant,
    period: Duration,
}

impl Clock {
    /// A frame is there at the end of its period.
    fn due(&self, number: u64) -> Instant {
        let periods = u32::try_from(number + 1).unwrap_or(u32::MAX);
        self.began + self.period.saturating_mul(periods)
    }
}

/// The name of a file, or of a frame's.
fn name(number: u64) -> String {
    format!("{number:05}.raw")
}

fn made(joined: std::thread::Result<io::Result<f64>>) -> Result<f64> {
    let made = joined.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
    made.map_err(|error| of_io("make frames", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { frames: 1440, frame_bytes: 65_536, period: Duration::from_millis(3) };

    #[test]
    fn every_frame_is_in_exactly_one_file() {
        for files in [1, 7, 10, 144, 1440] {
            let gathered = SHAPE.gathered(files);
            assert_eq!(gathered.len() as u64, files);
            let frames: Vec<u64> = gathered.into_iter().flatten().collect();
            assert!(frames.into_iter().eq(0..SHAPE.frames), "{files}");
        }
    }

    #[test]
    fn the_paper_s_own_scan_is_had_with_a_budget_that_holds_it() {
        assert_eq!(FRAMES * FRAME_BYTES, 12_079_595_520);
        assert_eq!(SUITE.budget_bytes / FRAMES, 65_536);
        assert_eq!(cases(&SHAPE).len(), 18);
        assert_eq!(cases(&Shape { frames: 144, ..SHAPE }).len(), 16);
    }

    /// As docs/guide/bench.md advises.
    #[test]
    fn a_tenth_of_the_paper_s_scan_has_its_frames_at_its_rates_for_seven_minutes() {
        let wishes = Wishes { budget_bytes: Some(1152 * MIB), files_max: Some(144), ..Wishes::default() };
        let shape = Shape::of(&wishes);
        assert_eq!(shape, Shape { frames: 144, frame_bytes: FRAME_BYTES, period: PERIOD });
        let changes = prepare(&wishes).unwrap().changes;
        assert_eq!(changes.into_iter().map(|change| change.to).collect::<Vec<_>>(), ["144"]);
        let made: Duration = cases(&shape).iter().map(|case| case.period * 144).sum();
        assert_eq!(made.as_secs(), 418);
    }

    #[test]
    fn a_frame_is_due_at_the_end_of_its_period() {
        let clock = Clock { began: Instant::now(), period: SHAPE.period };
        assert_eq!(clock.due(0) - clock.began, SHAPE.period);
        assert_eq!(clock.due(1439) - clock.began, SHAPE.period * 1440);
    }
}
