use super::*;
use crate::item::key_of;
use std::collections::BTreeMap;
use thalweg_wire::Digest;

fn path(text: &str) -> RelativePath {
    RelativePath::new(text.into()).unwrap()
}

fn version(number: u64) -> Version {
    Version { bytes: number, changed_ns: number as i64, mark: number }
}

fn rules(order: Order) -> Rules {
    Rules {
        complete: Complete::Stable(Duration::from_secs(2)),
        order,
        moves_max: 3,
        runs_max: 2,
        attempts_max: 3,
        runs_command: true,
        returns_results: true,
    }
}

fn seen(files: &BTreeMap<String, u64>) -> Vec<Seen> {
    let one = |(name, content): (&String, &u64)| Seen {
        name: path(name),
        version: version(*content),
        is_marked: false,
    };
    files.iter().map(one).collect()
}

/// A look to which nothing was hidden.
fn looked(all: Vec<Seen>) -> Input {
    Input::Looked(all, Vec::new())
}

fn arrived(name: &RelativePath, version: Version) -> Arrived {
    let digest = Digest([version.mark as u8; 32]);
    Arrived { version, digest: digest.to_string(), key: key_of(name, &digest), bytes: version.bytes }
}

/// A world in which everything may be killed at every step: what is durable, what runs, and what really happened.
struct World {
    rules: Rules,
    machine: Machine,
    journal: Vec<Record>,
    now: Duration,
    files: BTreeMap<String, u64>,
    moves: Vec<(RelativePath, Version)>,
    /// Runs that live below their keepers, and outlive the watcher.
    alive: Vec<(RelativePath, u32, u64)>,
    /// What keepers recorded.
    ends: HashMap<(RelativePath, u32), Outcome>,
    /// Runs that the watcher waits for.
    awaited: Vec<(RelativePath, u32)>,
    returns: Vec<RelativePath>,
    /// Name and content of each run that succeeded, in order.
    analysed: Vec<(String, u64)>,
    random: fastrand::Rng,
    /// Of 1000 steps so many kill the watcher.
    kills: u32,
    lives: u32,
}

struct Killed;

impl World {
    fn new(seed: u64, order: Order, kills: u32) -> World {
        let rules = Rules { returns_results: seed.is_multiple_of(2), ..rules(order) };
        World {
            machine: Machine::new(rules.clone()),
            rules,
            journal: Vec::new(),
            now: Duration::ZERO,
            files: BTreeMap::new(),
            moves: Vec::new(),
            alive: Vec::new(),
            ends: HashMap::new(),
            awaited: Vec::new(),
            returns: Vec::new(),
            analysed: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            kills,
            lives: 1,
        }
    }

    fn may_die(&mut self) -> Result<(), Killed> {
        if self.random.u32(0..1000) < self.kills { Err(Killed) } else { Ok(()) }
    }

    fn write(&mut self, records: Vec<Record>) -> Result<(), Killed> {
        for record in records {
            self.may_die()?;
            self.journal.push(record);
            self.may_die()?;
        }
        Ok(())
    }

    /// What [`Machine::wakes_at`] says, found by going through everything.
    fn wakes_at(&self) -> Option<Duration> {
        let machine = &self.machine;
        let at = |line: &Line| {
            let item = &machine.items[&line.name];
            let waits = matches!(item.work, Work::Rest | Work::Later(_)) && item.waits_for_source();
            let at = item.rests_at(&self.rules).filter(|_| waits)?;
            machine.looked_at.is_none_or(|looked_at| at > looked_at).then_some(at)
        };
        machine.open.iter().filter_map(at).min()
    }

    fn input(&mut self, input: Input) -> Result<(), Killed> {
        let records = self.machine.take(self.now, input);
        assert_eq!(self.machine.wakes_at(), self.wakes_at());
        self.write(records)
    }

    fn act(&mut self) -> Result<(), Killed> {
        loop {
            let (records, actions) = self.machine.decide(self.now);
            if records.is_empty() && actions.is_empty() {
                return Ok(());
            }
            self.write(records)?;
            for action in actions {
                self.may_die()?;
                match action {
                    Action::Move(name, version) => self.moves.push((name, version)),
                    Action::Return(name) => self.returns.push(name),
                    Action::Run(name, attempt) => {
                        let content = self.machine.arrived(&name).unwrap().bytes;
                        assert!(
                            !self.alive.iter().any(|(other, ..)| *other == name),
                            "{name} runs twice at once"
                        );
                        self.alive.push((name.clone(), attempt, content));
                        self.awaited.push((name, attempt));
                    }
                    Action::Recover(name, attempt) => self.awaited.push((name, attempt)),
                }
            }
        }
    }

    /// The next life goes by what is durable.
    fn restart(&mut self) {
        self.lives += 1;
        (self.moves, self.returns, self.awaited) = (Vec::new(), Vec::new(), Vec::new());
        self.machine = Machine::new(self.rules.clone());
        if self.random.bool() {
            // A journal may be rewritten as a snapshot at any beginning.
            self.journal.drain(..).for_each(|record| self.machine.replay(record));
            self.journal = self.machine.snapshot();
            self.machine = Machine::new(self.rules.clone());
        }
        self.journal.iter().cloned().for_each(|record| self.machine.replay(record));
        self.machine.begin();
    }

    /// The journal is rewritten while it is watched.
    fn compact(&mut self) -> Result<(), Killed> {
        let forgotten = self.machine.forget();
        self.may_die()?;
        self.ends.retain(|(name, _), _| !forgotten.contains(name));
        self.may_die()?;
        self.journal = self.machine.snapshot();
        self.may_die()
    }

    fn step(&mut self, may_fail: bool) -> Result<(), Killed> {
        if self.random.u32(0..40) == 0 {
            self.compact()?;
        }
        let fails = may_fail && self.random.u32(0..4) == 0;
        match self.random.u32(0..6) {
            0 => {
                let mut all = seen(&self.files);
                let place = self.random.usize(0..8);
                // Of what it never saw it knows nothing.
                let is_known = |seen: &Seen| self.machine.items.contains_key(&seen.name);
                let may_hide = may_fail && all.get(place).is_some_and(is_known);
                let hidden = may_hide.then(|| all.remove(place).name);
                self.input(Input::Looked(all, hidden.into_iter().collect()))?;
            }
            1 => self.now += Duration::from_millis(self.random.u64(0..3000)),
            2 if !self.moves.is_empty() => {
                let (name, was) = self.moves.swap_remove(self.random.usize(0..self.moves.len()));
                // What is copied is what is there now, whatever was seen.
                let result = match self.files.get(&name.to_string()) {
                    None => Err(Trouble::Missing),
                    Some(_) if fails => Err(Trouble::Passing),
                    Some(content) => Ok(Arrived { version: was, ..arrived(&name, version(*content)) }),
                };
                self.input(Input::Moved(name, result))?;
            }
            3 if !self.alive.is_empty() => {
                let (name, attempt, content) = self.alive.swap_remove(self.random.usize(0..self.alive.len()));
                let outcome = if fails { Outcome::Failed(1) } else { Outcome::Succeeded };
                if !fails {
                    self.analysed.push((name.to_string(), content));
                }
                self.ends.insert((name, attempt), outcome);
            }
            4 if !self.awaited.is_empty() => {
                let place = self.random.usize(0..self.awaited.len());
                let (name, attempt) = self.awaited[place].clone();
                let is_alive =
                    self.alive.iter().any(|(other, number, _)| (other, *number) == (&name, attempt));
                if !is_alive {
                    self.awaited.swap_remove(place);
                    // A run that was recorded and never begun has no end.
                    let outcome =
                        self.ends.get(&(name.clone(), attempt)).cloned().unwrap_or(Outcome::Unknown);
                    self.input(Input::Ended(name, attempt, outcome))?;
                }
            }
            5 if !self.returns.is_empty() => {
                let name = self.returns.swap_remove(self.random.usize(0..self.returns.len()));
                let result = if fails { Err(Trouble::Passing) } else { Ok(()) };
                self.input(Input::Returned(name, result))?;
            }
            _ => {}
        }
        self.act()
    }

    fn run(&mut self, steps: u32, may_fail: bool) {
        for _ in 0..steps {
            if self.step(may_fail).is_err() {
                self.restart();
            }
        }
    }

    /// No more kills, failures or changes; all that is left to do is done.
    fn calm_down(&mut self) {
        self.kills = 0;
        // What was given up gets a new life.
        self.restart();
        let mut looks = 0;
        while looks < 3 || !self.machine.is_idle() {
            assert!(self.now < Duration::from_secs(1_000_000), "it never ends");
            looks += 1;
            let all = seen(&self.files);
            let _ = self.input(looked(all));
            self.run(50, false);
            self.now += Duration::from_secs(3);
        }
    }
}

#[test]
fn whatever_is_killed_each_content_is_analysed_once_and_none_is_lost() {
    let mut lives = 0;
    for seed in 0..400 {
        let order = [Order::Arrival, Order::Name, Order::Time][seed as usize % 3];
        let mut world = World::new(seed, order, 60);
        let mut content = 0;
        for _ in 0..12 {
            let name = format!("run{}", world.random.u32(0..6));
            match world.random.u32(0..6) {
                0 => {}
                // It is removed, and maybe comes again as it was or as it once was.
                1 => drop(world.files.remove(&name)),
                2 if !world.analysed.is_empty() => {
                    let (name, content) = world.analysed[world.random.usize(0..world.analysed.len())].clone();
                    world.files.insert(name, content);
                }
                _ => {
                    content += 1;
                    world.files.insert(name, content);
                }
            }
            world.run(60, true);
        }
        world.calm_down();
        let mut once = HashSet::new();
        for pair in &world.analysed {
            assert!(once.insert(pair.clone()), "seed {seed}: {pair:?} was analysed twice");
        }
        for pair in world.files.clone() {
            assert!(once.contains(&pair), "seed {seed}: {pair:?} was lost");
        }
        lives += world.lives;
    }
    assert!(lives > 2000, "only {lives} lives: nothing was killed");
}

#[test]
fn in_order_the_next_waits_for_the_one_before_whatever_is_killed_or_fails() {
    for seed in 0..200 {
        for order in [Order::Name, Order::Time] {
            let mut world = World::new(seed, order, 20);
            for number in 0..8u64 {
                world.files.insert(format!("snapshot{number}"), 1 + number);
            }
            // All are seen before anything is done.
            let all = seen(&world.files);
            let _ = world.input(looked(all));
            world.run(600, true);
            world.calm_down();
            let contents: Vec<u64> = world.analysed.iter().map(|(_, content)| *content).collect();
            assert_eq!(contents, (1..=8).collect::<Vec<u64>>(), "seed {seed}");
        }
    }
}

#[test]
fn what_grows_is_left_alone_until_it_has_rested() {
    let mut machine = Machine::new(rules(Order::Arrival));
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), content)])));
    let at = Duration::from_secs;
    for second in 0..5 {
        assert!(machine.take(at(second), look(second)).is_empty());
        assert_eq!(machine.decide(at(second)), (Vec::new(), Vec::new()));
    }
    assert_eq!(machine.wakes_at(), Some(at(6)));
    assert_eq!(machine.decide(at(6)).1, [], "nobody looked since");
    assert!(machine.take(at(6), look(4)).is_empty());
    assert_eq!(machine.wakes_at(), None);
    assert_eq!(machine.decide(at(6)).1, [Action::Move(path("a"), version(4))]);
}

#[test]
fn an_item_that_fails_again_and_again_is_given_up_and_in_order_holds_the_others() {
    let mut machine = Machine::new(Rules { order: Order::Name, ..rules(Order::Name) });
    let files = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
    let mut now = Duration::ZERO;
    let _ = machine.take(now, looked(seen(&files)));
    now += Duration::from_secs(2);
    let _ = machine.take(now, looked(seen(&files)));
    let (_, moves) = machine.decide(now);
    assert_eq!(moves.len(), 2);
    for name in ["b", "a"] {
        let moved = Input::Moved(path(name), Ok(arrived(&path(name), version(files[name]))));
        let _ = machine.take(now, moved);
    }
    for attempt in 1..=3 {
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), attempt)], "attempt {attempt}");
        let _ = machine.take(now, Input::Ended(path("a"), attempt, Outcome::Failed(9)));
        assert!(machine.decide(now).1.is_empty(), "it is tried again at once");
        now += BACKOFF_MAX;
    }
    assert_eq!(machine.blocked_by(), Some(&path("a")));
    assert!(machine.decide(now).1.is_empty());
    // A new version is another chance.
    let _ = machine.take(now, looked(seen(&BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 2)]))));
    assert_eq!(machine.blocked_by(), None);
}

#[test]
fn what_was_not_found_is_gone_only_if_a_look_says_so() {
    let both = BTreeMap::from([("run1".to_owned(), 1), ("run2".to_owned(), 2)]);
    let late = BTreeMap::from([("run2".to_owned(), 2)]);
    let at = Duration::from_secs;
    let begun = || {
        let mut machine = Machine::new(rules(Order::Name));
        let _ = machine.take(at(0), looked(seen(&both)));
        let _ = machine.take(at(2), looked(seen(&both)));
        assert_eq!(machine.decide(at(2)).1.len(), 2);
        let moved = Input::Moved(path("run2"), Ok(arrived(&path("run2"), version(2))));
        let _ = machine.take(at(2), moved);
        // A temporary file in it was removed while it was copied.
        let _ = machine.take(at(2), Input::Moved(path("run1"), Err(Trouble::Missing)));
        assert_eq!(machine.decide(at(2)).1, [], "nothing overtakes it before a look");
        machine
    };
    let mut machine = begun();
    let _ = machine.take(at(3), looked(seen(&both)));
    assert_eq!(machine.decide(at(3)).1, [Action::Move(path("run1"), version(1))]);
    let _ = machine.take(at(3), Input::Moved(path("run1"), Ok(arrived(&path("run1"), version(1)))));
    assert_eq!(machine.decide(at(3)).1, [Action::Run(path("run1"), 1)]);
    let mut machine = begun();
    let _ = machine.take(at(3), looked(seen(&late)));
    assert_eq!(machine.decide(at(3)).1, [Action::Run(path("run2"), 1)]);
    assert_eq!(machine.lost().count(), 0);
}

#[test]
fn what_fails_because_something_else_is_not_there_is_tried_on_and_counts_when_it_goes() {
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    let mut machine = Machine::new(rules(Order::Arrival));
    let mut now = Duration::ZERO;
    let _ = machine.take(now, looked(seen(&files)));
    for attempt in 1..=5 {
        now += BACKOFF_MAX;
        let _ = machine.take(now, looked(seen(&files)));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))], "attempt {attempt}");
        assert!(machine.is_busy(), "this one may succeed");
        let _ = machine.take(now, Input::Moved(path("a"), Err(Trouble::Missing)));
        assert!(!machine.is_busy());
        assert_eq!(machine.is_idle(), attempt >= 3, "attempt {attempt}");
        assert_eq!(machine.given_up().len(), usize::from(attempt >= 3));
    }
    let _ = machine.take(now, looked(Vec::new()));
    assert_eq!((machine.is_idle(), machine.given_up().len()), (true, 0));
    assert_eq!(machine.lost().collect::<Vec<_>>(), [&path("a")]);
    // It comes again, and arrives.
    let _ = machine.take(now, looked(seen(&files)));
    let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
    assert_eq!(machine.lost().count(), 0);
}

#[test]
fn what_goes_while_a_later_version_of_it_is_copied_leaves_nothing_to_do() {
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), content)])));
    let at = Duration::from_secs;
    for (trouble, is_lost) in [(Trouble::Missing, false), (Trouble::Passing, true), (Trouble::Lasting, true)]
    {
        let mut machine = Machine::new(Rules { returns_results: false, ..rules(Order::Arrival) });
        let _ = machine.take(at(0), look(1));
        let _ = machine.take(at(2), look(1));
        assert_eq!(machine.decide(at(2)).1.len(), 1);
        let _ = machine.take(at(2), Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
        assert_eq!(machine.decide(at(2)).1, [Action::Run(path("a"), 1)]);
        let ended = machine.take(at(2), Input::Ended(path("a"), 1, Outcome::Succeeded));
        assert_eq!(ended.last(), Some(&Record::Done(path("a"))));
        let _ = machine.take(at(3), look(2));
        let _ = machine.take(at(5), look(2));
        assert_eq!(machine.decide(at(5)).1, [Action::Move(path("a"), version(2))]);
        let _ = machine.take(at(6), looked(Vec::new()));
        let _ = machine.take(at(6), Input::Moved(path("a"), Err(trouble)));
        assert!(machine.is_idle() && machine.given_up().is_empty(), "{trouble:?}");
        assert_eq!(machine.lost().count(), usize::from(is_lost), "{trouble:?}");
    }
}

#[test]
fn what_the_command_failed_for_is_replaced_by_what_somebody_corrected() {
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), content)])));
    // Once; until it is given up; and in an earlier life.
    for (failures, is_restarted) in [(1, false), (3, false), (1, true), (3, true)] {
        let rules = rules([Order::Arrival, Order::Name][failures as usize % 2]);
        let mut machine = Machine::new(rules.clone());
        let mut now = Duration::ZERO;
        let _ = machine.take(now, look(1));
        now += Duration::from_secs(2);
        let _ = machine.take(now, look(1));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
        for attempt in 1..=failures {
            now += BACKOFF_MAX;
            assert_eq!(machine.decide(now).1, [Action::Run(path("a"), attempt)]);
            let _ = machine.take(now, Input::Ended(path("a"), attempt, Outcome::Failed(1)));
        }
        if is_restarted {
            let journal = machine.snapshot();
            machine = Machine::new(rules);
            journal.into_iter().for_each(|record| machine.replay(record));
            machine.begin();
        }
        let _ = machine.take(now, look(7));
        assert_eq!(machine.decide(now).1, [], "neither is what was corrected run, nor is the other complete");
        now += Duration::from_secs(2);
        let _ = machine.take(now, look(7));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(7))], "after {failures}");
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(7)))));
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), failures + 1)]);
        assert_eq!(machine.arrived(&path("a")).unwrap().bytes, 7);
    }
}

/// A machine with one item for which the command runs; it may fail so often.
fn running(attempts_max: u32) -> Machine {
    let mut machine = Machine::new(Rules { attempts_max, ..rules(Order::Arrival) });
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    for second in [0, 2] {
        let _ = machine.take(Duration::from_secs(second), looked(seen(&files)));
    }
    copied(&mut machine, Duration::from_secs(2));
    assert_eq!(machine.decide(Duration::from_secs(2)).1, [Action::Run(path("a"), 1)]);
    machine
}

/// Its item is copied, as the machine says.
fn copied(machine: &mut Machine, now: Duration) {
    assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
    let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
}

#[test]
fn what_arrived_and_is_not_there_any_more_is_copied_again_but_not_for_ever() {
    let now = Duration::from_secs(2);
    let gone = |attempt| Input::CopyGone(path("a"), attempt, "it is gone".into());
    let mut machine = running(1);
    let records = machine.take(now, gone(1));
    assert!(matches!(&records[..], [Record::Ended(_, 1, Outcome::NotStarted(_))]), "{records:?}");
    assert!(!machine.is_idle() && machine.given_up().is_empty(), "no attempt was made");
    copied(&mut machine, now);
    assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 2)]);
    // Somebody removes it each time.
    let _ = machine.take(now, gone(2));
    assert_eq!(machine.given_up(), [&path("a")]);
    assert_eq!(machine.decide(now + BACKOFF_MAX).1, []);
    // The next life finds it gone, and has it copied again.
    let journal = machine.snapshot();
    let mut machine = Machine::new(rules(Order::Arrival));
    journal.into_iter().for_each(|record| machine.replay(record));
    machine.begin();
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    for second in [0, 2] {
        let _ = machine.take(Duration::from_secs(second), looked(seen(&files)));
    }
    assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 3)]);
    let _ = machine.take(now, gone(3));
    copied(&mut machine, now);
}

#[test]
fn a_copy_that_is_made_again_makes_no_failure_of_the_command_undone() {
    let mut now = Duration::from_secs(2);
    let mut machine = running(3);
    let failed = |attempt| Input::Ended(path("a"), attempt, Outcome::Failed(9));
    let _ = machine.take(now, failed(1));
    now += BACKOFF_MAX;
    assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 2)]);
    let _ = machine.take(now, Input::CopyGone(path("a"), 2, "it is gone".into()));
    // That the way to it fails for a while is no failure of the command.
    for _ in 0..3 {
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
        let _ = machine.take(now, Input::Moved(path("a"), Err(Trouble::Passing)));
        now += BACKOFF_MAX;
    }
    copied(&mut machine, now);
    for attempt in [3, 4] {
        assert!(machine.given_up().is_empty());
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), attempt)]);
        let _ = machine.take(now, failed(attempt));
        now += BACKOFF_MAX;
    }
    assert_eq!(machine.given_up(), [&path("a")]);
}

#[test]
fn what_is_neither_where_it_arrived_nor_at_the_source_is_given_up() {
    let mut now = Duration::from_secs(3);
    let mut machine = running(2);
    let _ = machine.take(now, looked(Vec::new()));
    for attempt in [1, 2] {
        let _ = machine.take(now, Input::CopyGone(path("a"), attempt, "it is gone".into()));
        now += BACKOFF_MAX;
        let next = (attempt == 1).then(|| Action::Run(path("a"), 2));
        assert_eq!(machine.decide(now).1, next.into_iter().collect::<Vec<_>>(), "attempt {attempt}");
    }
    assert!(machine.is_idle());
    assert_eq!(machine.given_up(), [&path("a")]);
}

#[test]
fn what_is_done_and_gone_is_forgotten_but_for_its_key_and_never_analysed_again() {
    let rules = || Rules { returns_results: false, ..rules(Order::Arrival) };
    let mut machine = Machine::new(rules());
    let mut now = Duration::ZERO;
    let look = |content: Option<u64>| {
        looked(seen(&content.map(|content| ("a".to_owned(), content)).into_iter().collect()))
    };
    // What a look at this content leads to; a run succeeds at once.
    let mut go = |machine: &mut Machine, content: u64| -> Option<u32> {
        let _ = machine.take(now, look(Some(content)));
        now += Duration::from_secs(2);
        let _ = machine.take(now, look(Some(content)));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(content))]);
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(content)))));
        let attempt = match machine.decide(now).1[..] {
            [Action::Run(_, attempt)] => attempt,
            [] => return None,
            ref other => panic!("{other:?}"),
        };
        let ended = machine.take(now, Input::Ended(path("a"), attempt, Outcome::Succeeded));
        assert_eq!(ended.last(), Some(&Record::Done(path("a"))));
        Some(attempt)
    };
    assert_eq!(go(&mut machine, 1), Some(1));
    // It is there: nothing is forgotten.
    assert!(machine.forget().is_empty());
    let _ = machine.take(Duration::from_secs(3), look(None));
    assert_eq!(machine.forget(), [path("a")]);
    let journal = machine.snapshot();
    assert!(matches!(&journal[..], [Record::Past(keys)] if keys.len() == 1), "{journal:?}");
    let mut next = Machine::new(rules());
    journal.into_iter().for_each(|record| next.replay(record));
    next.begin();
    // The same again runs nothing; another content of that name does, and the first after it does not.
    assert_eq!(go(&mut next, 1), None);
    assert_eq!(go(&mut next, 2), Some(1));
    assert_eq!(go(&mut next, 1), None);
    assert_eq!(go(&mut next, 2), None);
    assert!(next.is_idle());
}

#[test]
fn a_touch_without_new_content_runs_nothing_again() {
    let mut machine = Machine::new(Rules { returns_results: false, ..rules(Order::Arrival) });
    let mut now = Duration::ZERO;
    for (touch, runs) in [(1, true), (2, false), (3, false)] {
        let all = vec![Seen { name: path("a"), version: version(touch), is_marked: false }];
        let _ = machine.take(now, looked(all.clone()));
        now += Duration::from_secs(2);
        let _ = machine.take(now, looked(all));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(touch))]);
        let same = Arrived { version: version(touch), ..arrived(&path("a"), version(1)) };
        let _ = machine.take(now, Input::Moved(path("a"), Ok(same)));
        let (_, actions) = machine.decide(now);
        assert_eq!(!actions.is_empty(), runs);
        if runs {
            let ended = machine.take(now, Input::Ended(path("a"), 1, Outcome::Succeeded));
            assert_eq!(ended.last(), Some(&Record::Done(path("a"))));
        }
        assert!(machine.is_idle());
    }
}

#[test]
fn a_copy_that_ends_leads_to_the_next_however_many_wait_for_their_turn() {
    let mut machine = Machine::new(rules(Order::Name));
    let files: BTreeMap<String, u64> = (1..=9u64).map(|number| (format!("scan{number}"), number)).collect();
    let at = Duration::from_secs;
    let _ = machine.take(at(0), looked(seen(&files)));
    let _ = machine.take(at(2), looked(seen(&files)));
    let moved = |machine: &mut Machine, number: u64| {
        let name = path(&format!("scan{number}"));
        let _ = machine.take(at(2), Input::Moved(name.clone(), Ok(arrived(&name, version(number)))));
        machine.decide(at(2)).1
    };
    let moves = |numbers: &[u64]| -> Vec<Action> {
        let one = |&number| Action::Move(path(&format!("scan{number}")), version(number));
        numbers.iter().map(one).collect()
    };
    assert_eq!(machine.decide(at(2)).1, moves(&[1, 2, 3]));
    // The first is not there: the others are copied, and wait for it.
    for number in 2..=7 {
        assert_eq!(moved(&mut machine, number), moves(&[number + 2]));
    }
    assert_eq!(moved(&mut machine, 8), []);
    assert_eq!(moved(&mut machine, 1), [Action::Run(path("scan1"), 1)]);
    // Copies are at work, and so is the command: of what is found out in another life nothing is left out.
    let mut next = Machine::new(rules(Order::Name));
    machine.snapshot().into_iter().for_each(|record| next.replay(record));
    next.begin();
    assert_eq!(next.decide(at(0)).1, [Action::Recover(path("scan1"), 1)]);
}

#[test]
fn what_nobody_could_look_at_stays_as_it_was_and_is_not_taken_to_rest() {
    let files = |first| BTreeMap::from([("a/1".to_owned(), first), ("b/2".to_owned(), 2)]);
    let rest = || seen(&BTreeMap::from([("b/2".to_owned(), 2)]));
    let at = Duration::from_secs;
    // The file itself, a directory above it, all of it.
    for unseen in ["a/1", "a", ""] {
        let mut machine = Machine::new(rules(Order::Name));
        let hidden =
            || Input::Looked(if unseen.is_empty() { Vec::new() } else { rest() }, vec![path(unseen)]);
        let _ = machine.take(at(0), looked(seen(&files(1))));
        let _ = machine.take(at(1), looked(seen(&files(1))));
        let _ = machine.take(at(2), looked(seen(&files(7))));
        assert_eq!(machine.decide(at(2)).1, [Action::Move(path("b/2"), version(2))]);
        let _ = machine.take(at(2), Input::Moved(path("b/2"), Ok(arrived(&path("b/2"), version(2)))));
        for second in [3, 4, 5] {
            let _ = machine.take(at(second), hidden());
            assert_eq!(machine.decide(at(second)).1, [], "{unseen:?}: nothing overtakes it, and it may grow");
            assert_eq!(machine.wakes_at(), Some(at(second + 2)));
        }
        assert!(
            machine.is_idle(),
            "{unseen:?}: whoever waits for an end shall not wait for what nobody can see"
        );
        assert_eq!(machine.lost().count(), 0);
        let _ = machine.take(at(6), looked(seen(&files(7))));
        assert!(!machine.is_idle());
        assert_eq!(machine.decide(at(6)).1, [], "{unseen:?}: it was seen again only now");
        let _ = machine.take(at(7), looked(seen(&files(7))));
        assert_eq!(machine.decide(at(7)).1, [Action::Move(path("a/1"), version(7))], "{unseen:?}");
    }
    // What is seen beside it is complete when it has rested.
    let mut machine = Machine::new(rules(Order::Arrival));
    for second in [0, 2] {
        let _ = machine.take(at(second), Input::Looked(rest(), vec![path("b"), path("")]));
    }
    assert_eq!(machine.decide(at(2)).1, [Action::Move(path("b/2"), version(2))]);
}

#[test]
fn a_directory_that_is_seen_in_part_is_no_other_version_and_not_complete() {
    let look = |content, unseen: &[&str]| {
        let all = seen(&BTreeMap::from([("run1".to_owned(), content)]));
        Input::Looked(all, unseen.iter().map(|name| path(name)).collect())
    };
    let at = Duration::from_secs;
    let mut machine = Machine::new(Rules { runs_command: false, ..rules(Order::Arrival) });
    for second in [0, 2] {
        let _ = machine.take(at(second), look(1, &["run1"]));
        assert_eq!(machine.decide(at(second)).1, [], "it may be more");
    }
    let _ = machine.take(at(3), look(5, &[]));
    let _ = machine.take(at(5), look(5, &[]));
    assert_eq!(machine.decide(at(5)).1, [Action::Move(path("run1"), version(5))]);
    let moved = machine.take(at(5), Input::Moved(path("run1"), Ok(arrived(&path("run1"), version(5)))));
    assert_eq!(moved.last(), Some(&Record::Done(path("run1"))));
    for second in [6, 9, 12] {
        let _ = machine.take(at(second), look(1, &["run1"]));
        assert_eq!(machine.decide(at(second)).1, []);
    }
    assert!(machine.is_idle());
}

#[test]
fn a_marker_that_nobody_could_look_at_does_not_count_until_it_is_seen_again() {
    let at = Duration::from_secs;
    let all = || vec![Seen { name: path("a/1"), version: version(1), is_marked: true }];
    // The item itself is seen in part; it is not seen, because nobody could look into the directory above it.
    for (seen_then, unseen) in [(all(), "a/1"), (Vec::new(), "a")] {
        let complete = Complete::Marker(b".done".to_vec());
        let mut machine = Machine::new(Rules { complete, ..rules(Order::Arrival) });
        let _ = machine.take(at(0), looked(all()));
        assert_eq!(machine.decide(at(0)).1, [Action::Move(path("a/1"), version(1))]);
        let _ = machine.take(at(1), Input::Moved(path("a/1"), Err(Trouble::Passing)));
        let _ = machine.take(at(2), Input::Looked(seen_then, vec![path(unseen)]));
        assert_eq!(machine.decide(at(3)).1, [], "{unseen}");
        assert!(
            machine.is_idle(),
            "{unseen}: whoever waits for an end shall not wait for what nobody can see"
        );
        let _ = machine.take(at(4), looked(all()));
        assert_eq!(machine.decide(at(4)).1, [Action::Move(path("a/1"), version(1))], "{unseen}");
    }
}

#[test]
fn an_item_without_its_marker_is_nothing_to_do_and_is_told_where_others_wait_for_it_in_order() {
    let at = Duration::from_secs;
    for order in [Order::Arrival, Order::Name] {
        let complete = Complete::Marker(b".done".to_vec());
        let mut machine = Machine::new(Rules { complete, returns_results: false, ..rules(order) });
        let look = |marked: &[&str]| {
            let of = |name: &&str| Seen {
                name: path(name),
                version: version(1),
                is_marked: marked.contains(name),
            };
            looked(["a", "b"].iter().map(of).collect())
        };
        let _ = machine.take(at(0), look(&[]));
        assert_eq!(machine.decide(at(0)).1, []);
        assert!(machine.is_idle() && machine.given_up().is_empty(), "{order:?}");
        let _ = machine.take(at(1), look(&["b"]));
        assert!(!machine.is_idle(), "{order:?}");
        assert_eq!(machine.decide(at(1)).1, [Action::Move(path("b"), version(1))]);
        let _ = machine.take(at(1), Input::Moved(path("b"), Ok(arrived(&path("b"), version(1)))));
        let actions = machine.decide(at(1)).1;
        match order {
            Order::Arrival => {
                assert_eq!(actions, [Action::Run(path("b"), 1)]);
                let _ = machine.take(at(1), Input::Ended(path("b"), 1, Outcome::Succeeded));
                assert!(machine.is_idle() && machine.given_up().is_empty());
            }
            _ => {
                assert_eq!(actions, []);
                assert!(machine.is_idle());
                assert_eq!(machine.given_up(), [&path("a")]);
            }
        }
        let _ = machine.take(at(2), look(&["a", "b"]));
        assert!(!machine.is_idle() && machine.given_up().is_empty(), "{order:?}");
    }
}

#[test]
fn by_time_what_is_written_anew_waits_for_what_changed_before_it_in_this_life_and_in_the_next() {
    let at = Duration::from_secs;
    let by_time = || Rules { returns_results: false, ..rules(Order::Time) };
    let look = |files: &[(&str, u64)]| {
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), *content)).collect();
        looked(seen(&files))
    };
    let moved = |name: &str, content| Input::Moved(path(name), Ok(arrived(&path(name), version(content))));
    let life = |records: &[Record]| {
        let mut machine = Machine::new(by_time());
        records.iter().cloned().for_each(|record| machine.replay(record));
        machine.begin();
        machine
    };
    for is_replayed in [false, true] {
        let mut records = Vec::new();
        let mut machine = life(&records);
        for second in [0, 2] {
            records.extend(machine.take(at(second), look(&[("a", 1)])));
        }
        assert_eq!(machine.decide(at(2)).1, [Action::Move(path("a"), version(1))]);
        records.extend(machine.take(at(2), moved("a", 1)));
        let (started, actions) = machine.decide(at(2));
        assert_eq!(actions, [Action::Run(path("a"), 1)]);
        records.extend(started);
        records.extend(machine.take(at(3), Input::Ended(path("a"), 1, Outcome::Succeeded)));
        if is_replayed {
            machine = life(&records);
        }
        let later = [("a", 9), ("b", 5)];
        for second in [10, 12] {
            records.extend(machine.take(at(second), look(&later)));
        }
        let moves = [Action::Move(path("b"), version(5)), Action::Move(path("a"), version(9))];
        assert_eq!(machine.decide(at(12)).1, moves, "replayed: {is_replayed}");
        records.extend(machine.take(at(13), moved("a", 9)));
        assert_eq!(machine.decide(at(13)).1, [], "replayed: {is_replayed}");
        records.extend(machine.take(at(13), moved("b", 5)));
        if is_replayed {
            machine = life(&records);
            let _ = machine.take(at(14), look(&later));
        }
        assert_eq!(machine.decide(at(14)).1, [Action::Run(path("b"), 1)], "replayed: {is_replayed}");
    }
}

#[test]
fn results_that_have_nowhere_to_go_are_given_up_as_copies_are_and_their_item_is_not_lost() {
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    for (trouble, attempts) in [(Trouble::Missing, 3), (Trouble::Lasting, 1)] {
        let mut machine = Machine::new(rules(Order::Arrival));
        let mut now = Duration::ZERO;
        for _ in 0..2 {
            let _ = machine.take(now, looked(seen(&files)));
            now += Duration::from_secs(2);
        }
        let _ = machine.take(now, looked(seen(&files)));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 1)]);
        let _ = machine.take(now, Input::Ended(path("a"), 1, Outcome::Succeeded));
        for attempt in 1..=attempts {
            assert_eq!(machine.decide(now).1, [Action::Return(path("a"))], "attempt {attempt}");
            let _ = machine.take(now, Input::Returned(path("a"), Err(trouble)));
            assert_eq!(machine.is_idle(), attempt == attempts, "{trouble:?}, attempt {attempt}");
            now += BACKOFF_MAX;
            let _ = machine.take(now, looked(seen(&files)));
        }
        assert_eq!(machine.given_up(), [&path("a")], "{trouble:?}");
        let _ = machine.take(now, looked(Vec::new()));
        assert_eq!(machine.lost().count(), 0, "it arrived");
    }
}
