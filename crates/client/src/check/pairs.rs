//! 1. and 2. Both sides tell at once, each in its order, and what they tell is paired by path.

use crate::threads;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::Stop;
use thalweg_wire::RelativePath;

/// Pieces that one side may be ahead.
pub(super) const AHEAD: usize = 1024;

/// What a side tells.
pub(super) enum Piece<T> {
    Item(RelativePath, T),
    /// What is in this directory comes in no order.
    Unordered(RelativePath),
    Trouble(Failure),
    End(Result<()>),
}

/// What comes of it.
pub(super) enum Met<T> {
    /// Both sides have it: the source, the destination.
    Pair(RelativePath, T, T),
    /// One side alone has it: 0, the source, or 1.
    Alone(usize, RelativePath, T),
    /// One side could not look at it.
    Trouble(usize, Failure),
}

/// Takes it.
pub(super) type Meet<'a, T> = dyn FnMut(Met<T>) -> Result<()> + 'a;

/// In which order both sides tell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// That of listings; they say where not.
    Listed,
    /// Mostly so, and nobody says where not.
    Mostly,
}

/// Where one side tells what it finds.
pub(super) struct Teller<'a, T> {
    pieces: SyncSender<Piece<T>>,
    /// Why the comparison is over before its end: what one side says of the other is not why.
    over: &'a Mutex<Option<Failure>>,
    /// Ends what a side waits for.
    stop: &'a Stop,
}

impl<T> Teller<'_, T> {
    pub(super) fn say(&self, piece: Piece<T>) -> Result<()> {
        self.go_on()?;
        self.pieces.send(piece).map_err(|_| failed_elsewhere())
    }

    /// Fails when what this side does is of no use any more.
    pub(super) fn go_on(&self) -> Result<()> {
        if lock(self.over).is_some() { Err(failed_elsewhere()) } else { Ok(()) }
    }

    fn end(&self, end: Result<()>) {
        if let Err(failure) = &end {
            end_all(self.over, self.stop, failure);
        }
        // A receiver that failed itself does not hear it.
        let _ = self.pieces.send(Piece::End(end));
    }
}

/// Notes why the comparison is over, if nothing was before it, and has both sides stop: one that waits for a link says
/// nothing meanwhile, and would not hear it otherwise.
fn end_all(over: &Mutex<Option<Failure>>, stop: &Stop, why: &Failure) {
    lock(over).get_or_insert_with(|| why.clone());
    stop.stop();
}

fn failed_elsewhere() -> Failure {
    Failure::new(FailureKind::Stopped, "check", "the other side failed")
}

/// Runs both sides at once and pairs what they tell by path. When one side fails, so does all at once, for its reason;
/// `stop`, which ends both, is asked for then.
pub(super) fn both<T: Send>(
    left: impl FnOnce(&Teller<'_, T>) -> Result<()> + Send,
    right: impl FnOnce(&Teller<'_, T>) -> Result<()> + Send,
    order: Order,
    stop: &Stop,
    meet: &mut Meet<'_, T>,
) -> Result<()> {
    let over = Mutex::new(None);
    let paired = std::thread::scope(|scope| {
        let (tell_left, hear_left) = sync_channel(AHEAD);
        let (tell_right, hear_right) = sync_channel(AHEAD);
        let tell_left = Teller { pieces: tell_left, over: &over, stop };
        let tell_right = Teller { pieces: tell_right, over: &over, stop };
        let started = threads::spawn_scoped(scope, "source", move || tell_left.end(left(&tell_left)));
        let started = started.and_then(|_| {
            threads::spawn_scoped(scope, "destination", move || tell_right.end(right(&tell_right)))
        });
        if let Err(failure) = &started {
            // Before the side that did start finds nobody who hears it.
            end_all(&over, stop, failure);
        }
        // They hear until it is said why: a side that finds nobody who hears it would say another reason.
        let mut sides = [Side::new(hear_left, order), Side::new(hear_right, order)];
        let paired = started.and_then(|_| pair_all(&mut sides, meet));
        if let Err(failure) = &paired {
            end_all(&over, stop, failure);
        }
        paired
    });
    paired.map_err(|failure| lock(&over).take().unwrap_or(failure))
}

pub(super) fn pair_all<T>(sides: &mut [Side<T>; 2], meet: &mut Meet<'_, T>) -> Result<()> {
    while !(sides[0].ended && sides[1].ended) {
        let behind = usize::from(
            sides[0].ended
                || (!sides[1].ended && sides[0].last.cmp_in_listing(&sides[1].last) == Ordering::Greater),
        );
        match sides[behind].hear.recv() {
            Ok(Piece::Item(path, item)) => {
                sides[behind].go_to(&path)?;
                let path = InOrder(path);
                match sides[1 - behind].alone.remove(&path) {
                    Some(other) if behind == 0 => meet(Met::Pair(path.0, item, other))?,
                    Some(other) => meet(Met::Pair(path.0, other, item))?,
                    None if sides[1 - behind].has_passed(&path.0) => meet(Met::Alone(behind, path.0, item))?,
                    None => drop(sides[behind].alone.insert(path, item)),
                }
            }
            Ok(Piece::Unordered(directory)) => sides[behind].enter_unordered(directory)?,
            Ok(Piece::Trouble(failure)) => meet(Met::Trouble(behind, failure))?,
            Ok(Piece::End(end)) => {
                sides[behind].ended = true;
                end?;
            }
            Err(_) => return Err(Failure::new(FailureKind::Internal, "check", "a thread ended early")),
        }
        let [left, right] = &mut *sides;
        let (passer, other) = if behind == 0 { (left, right) } else { (right, left) };
        while let Some(first) = other.alone.first_entry()
            && passer.has_passed(&first.key().0)
        {
            let (path, item) = first.remove_entry();
            meet(Met::Alone(1 - behind, path.0, item))?;
        }
    }
    Ok(())
}

/// What one side told so far.
pub(super) struct Side<T> {
    hear: Receiver<Piece<T>>,
    last: RelativePath,
    /// Directories that the last path is in, and whose names come in no order.
    unordered: Vec<RelativePath>,
    /// What waits for its partner.
    alone: BTreeMap<InOrder, T>,
    ended: bool,
}

impl<T> Side<T> {
    pub(super) fn new(hear: Receiver<Piece<T>>, order: Order) -> Self {
        let unordered = if order == Order::Mostly { vec![RelativePath::root()] } else { Vec::new() };
        Side { hear, last: RelativePath::root(), unordered, alone: BTreeMap::new(), ended: false }
    }

    /// # Errors
    /// `Protocol` where it goes back in the order that it keeps: what it passed by was told to be missing.
    fn go_to(&mut self, path: &RelativePath) -> Result<()> {
        self.unordered.retain(|directory| path.is_below(directory));
        if path.cmp_in_listing(&self.last) == Ordering::Less && self.unordered.is_empty() {
            let cause = "its names come in no order, and it does not say so: is thalweg older there?";
            return Err(Failure::new(FailureKind::Protocol, "list", cause).at(path));
        }
        self.last = path.clone();
        Ok(())
    }

    /// What is in this directory comes in no order; of one that is in such a directory, that is said already. It is the
    /// last path or one that this is in, as after an outage, or comes next: so there are no more of them than levels.
    ///
    /// # Errors
    /// As [`Side::go_to`].
    fn enter_unordered(&mut self, directory: RelativePath) -> Result<()> {
        if self.unordered.iter().any(|outer| directory == *outer || directory.is_below(outer)) {
            return Ok(());
        }
        if self.last != directory && !self.last.is_below(&directory) {
            self.go_to(&directory)?;
        }
        self.unordered.push(directory);
        Ok(())
    }

    /// Whether it does not tell this path any more.
    fn has_passed(&self, path: &RelativePath) -> bool {
        let is_behind = || path.cmp_in_listing(&self.last) == Ordering::Less;
        self.ended || (is_behind() && !self.unordered.iter().any(|directory| path.is_below(directory)))
    }
}

/// A path by the order of listings.
#[derive(PartialEq, Eq)]
struct InOrder(RelativePath);

impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp_in_listing(&other.0)
    }
}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    /// What comes of two listings: `a/` has names in no order.
    fn met(order: Order, sides: [&[&str]; 2]) -> Result<Vec<String>> {
        let mut all = Vec::new();
        let mut hear = sides.map(|names| {
            let (tell, hear) = sync_channel(AHEAD);
            for name in names {
                let (name, is_unordered) = name.strip_suffix('/').map_or((*name, false), |name| (name, true));
                tell.send(Piece::Item(path(name), ())).unwrap();
                if is_unordered {
                    tell.send(Piece::Unordered(path(name))).unwrap();
                }
            }
            tell.send(Piece::End(Ok(()))).unwrap();
            Side::new(hear, order)
        });
        pair_all(&mut hear, &mut |met| {
            all.push(match met {
                Met::Pair(path, (), ()) => path.to_string(),
                Met::Alone(0, path, ()) => format!("-{path}"),
                Met::Alone(_, path, ()) => format!("+{path}"),
                Met::Trouble(_, failure) => return Err(failure),
            });
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn what_the_other_side_has_passed_by_is_told_at_once_and_kept_no_longer() {
        // The destination has but a root and what comes last: most of the source would wait.
        let (tell_left, hear_left) = sync_channel(AHEAD);
        let (tell_right, hear_right) = sync_channel(AHEAD);
        for number in 0..AHEAD / 2 {
            tell_left.send(Piece::Item(path(&format!("many/{number:04}")), ())).unwrap();
        }
        tell_right.send(Piece::Item(path("z"), ())).unwrap();
        let mut alone = 0;
        let mut sides = [Side::new(hear_left, Order::Listed), Side::new(hear_right, Order::Listed)];
        // Nobody has said that this is the end: what is told is told before.
        drop((tell_left, tell_right));
        let ended = pair_all(&mut sides, &mut |met| {
            assert!(matches!(met, Met::Alone(0, _, ())));
            alone += 1;
            Ok(())
        });
        assert_eq!((ended.unwrap_err().kind, alone), (FailureKind::Internal, AHEAD / 2));
    }

    #[test]
    fn pairs_meet_whatever_the_order_of_a_directory_that_says_it_has_none() {
        let of = |left: &[&str], right: &[&str]| met(Order::Listed, [left, right]).unwrap();
        assert_eq!(of(&["a", "a/b", "c"], &["a", "a-b", "c"]), ["a", "-a/b", "+a-b", "c"]);
        assert_eq!(
            of(&["a/", "a/z", "a/b", "d"], &["a", "a/b", "a/z", "c"]),
            ["a", "a/z", "a/b", "+c", "-d"]
        );
        assert_eq!(of(&["a/", "a/z", "a/b"], &["a/", "a/m", "a/b"]), ["a", "-a/z", "a/b", "+a/m"]);
        // One that does not say so is not believed.
        let silent = met(Order::Listed, [&["a", "a/z", "a/b"], &["a", "a/b", "a/z"]]);
        assert_eq!(silent.unwrap_err().kind, FailureKind::Protocol);
        let mostly = met(Order::Mostly, [&["a/z", "a/b"], &["a/b", "a/z"]]).unwrap();
        assert_eq!(mostly, ["a/z", "a/b"]);
    }

    #[test]
    fn a_side_keeps_no_more_directories_without_order_than_there_are_levels() {
        let (_tell, hear) = sync_channel::<Piece<()>>(1);
        let mut side = Side::new(hear, Order::Listed);
        for number in 0..1000 {
            side.enter_unordered(path(&format!("a{number:03}"))).unwrap();
            side.enter_unordered(path(&format!("a{number:03}"))).unwrap();
            side.enter_unordered(path(&format!("a{number:03}/{number}"))).unwrap();
            assert_eq!(side.unordered.len(), 1);
        }
        side.go_to(&path("b/c/d")).unwrap();
        // As after an outage in which they grew.
        side.enter_unordered(path("b/c")).unwrap();
        side.enter_unordered(path("b")).unwrap();
        assert_eq!(side.unordered, [path("b/c"), path("b")]);
        side.go_to(&path("c")).unwrap();
        assert_eq!(side.enter_unordered(path("a")).unwrap_err().kind, FailureKind::Protocol);
    }
}
