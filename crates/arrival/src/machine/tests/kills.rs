//! Whatever is killed at whatever step, nothing is lost and nothing is done twice.

use super::*;
use std::collections::HashSet;

/// A world in which everything may be killed at every step: what is durable, what runs, and what really happened.
struct World {
    rules: Rules,
    machine: Machine,
    journal: Vec<Record>,
    now: Duration,
    files: BTreeMap<String, u64>,
    moves: Vec<(RelativePath, Version)>,
    /// What stands at the destination.
    there: BTreeMap<RelativePath, u64>,
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

/// Content that is neither of two versions. Theirs begin with 1.
const TORN: u64 = 0;

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
            there: BTreeMap::new(),
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
                        let Arrived { version: was, bytes: content, .. } =
                            self.machine.arrived(&name).unwrap().clone();
                        // What a look did not see yet may be seen before the command begins.
                        let now = self.files.get(&name.to_string()).map(|content| version(*content));
                        if let Some(now) = now.filter(|now| *now != was)
                            && self.random.bool()
                        {
                            self.input(Input::SourceChanged(name, attempt, now))?;
                            continue;
                        }
                        assert!(
                            !self.alive.iter().any(|(other, ..)| *other == name),
                            "{name} runs twice at once"
                        );
                        assert_eq!(self.there.get(&name), Some(&content), "{name} is not what arrived");
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
        for (name, _) in std::mem::take(&mut self.moves) {
            self.may_tear(&name);
        }
        (self.returns, self.awaited) = (Vec::new(), Vec::new());
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

    /// A copy that came to no good end: maybe something of it is in place.
    fn may_tear(&mut self, name: &RelativePath) -> bool {
        let is_torn = self.random.bool();
        if is_torn {
            self.there.insert(name.clone(), TORN);
        }
        is_torn
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
                let input = match self.files.get(&name.to_string()).copied() {
                    Some(content) if !fails => {
                        self.there.insert(name.clone(), content);
                        let arrived = Arrived { version: was, ..arrived(&name, version(content)) };
                        Input::Moved(name, Ok(arrived))
                    }
                    content => {
                        let trouble = if content.is_some() { Trouble::Passing } else { Trouble::Missing };
                        match self.may_tear(&name) {
                            true => Input::MovedInPart(name, trouble),
                            false => Input::Moved(name, Err(trouble)),
                        }
                    }
                };
                self.input(input)?;
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
