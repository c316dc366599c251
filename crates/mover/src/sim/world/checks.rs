//! What is checked, and how: see the head of `sim`.

use super::*;
use thalweg_wire::digest::{self, Pieces};

impl World {
    /// After every event.
    pub(super) fn look(&mut self) {
        if let Some(since) = self.calm_since
            && (self.now.saturating_sub(since) > CALM_TIME_MAX
                || self.report.steps - self.calm_steps > CALM_STEPS_MAX)
        {
            self.violation("the command does not end although nothing goes wrong any more");
        }
        if self.report.steps.is_multiple_of(64) && self.random.percent(20) {
            self.report.cuts_tried += 1;
            let real = self.disk.clone();
            let loss = self.any_loss();
            self.disk.power_cut(loss, &mut self.random);
            self.check_names();
            self.disk = real;
        }
    }

    pub(super) fn check_names(&self) {
        for name in self.disk.names.keys() {
            if let Name::Final(path) = name {
                self.check_name(path);
            }
        }
    }

    /// Under a final name stands the old content or what the source had at one moment.
    pub(super) fn check_name(&self, path: &RelativePath) {
        if let Some(Node::File(inode, _)) = self.disk.names.get(&Name::Final(path.clone())) {
            self.check_content(path, self.disk.content(*inode));
        }
    }

    pub(super) fn check_content(&self, path: &RelativePath, content: &[u8]) {
        let is_strange = self.plan.faults.contains(&Fault::Stranger) && content == STRANGE;
        if is_strange || self.before.get(path).is_some_and(|old| old == content) {
            return;
        }
        let known = self.source.file_at(path).map(|file| &self.source.files[file]);
        if !known.is_some_and(|file| file.had(content, Duration::ZERO)) {
            self.violation(format!("under `{path}` stands what the source never had"));
        }
    }

    pub(super) fn check_inode(&self, inode: Inode) {
        for (name, node) in &self.disk.names {
            if let (Name::Final(path), Node::File(other, _)) = (name, node)
                && *other == inode
            {
                self.check_content(path, self.disk.content(inode));
            }
        }
    }

    pub(super) fn check_finished(&self, entry: &Entry, digest: Digest) {
        let Some(Node::File(inode, _)) = self.disk.names.get(&Name::Final(entry.path.clone())) else {
            self.violation(format!("`{}` was named and is not there", entry.path));
        };
        if self.disk.is_dirty(*inode) && self.disk.medium(*inode) != self.disk.content(*inode) {
            self.violation(format!("`{}` got its name before its bytes were durable", entry.path));
        }
        self.check_name(&entry.path);
        let marked = matches!(entry.kind, Kind::File { marked: true, .. });
        if file_digest(self.disk.content(*inode), marked, &self.plan.terms) != digest {
            self.violation(format!("`{}` is not what its digest says", entry.path));
        }
    }

    /// Parts that are told of a file join to the digest of what stands there.
    pub(super) fn check_pieces(&self, entry: &Entry, pieces: &Pieces) {
        let path = &entry.path;
        let nodes = self.disk.after_power_cut(&Name::Final(path.clone()));
        if let Some(Some(Node::File(inode, _))) = nodes.into_iter().next()
            && digest::join(&pieces.digests, true)
                != file_digest(self.disk.medium(inode), false, &self.plan.terms)
        {
            self.violation(format!("the parts told of `{path}` are not those of the file"));
        }
    }

    /// What stands where the source's may go does so after any power cut, as it was in this run.
    pub(super) fn check_may_go(&self, entry: &Entry) {
        let path = &entry.path;
        for found in self.disk.after_power_cut(&Name::Final(path.clone())) {
            match (found, &entry.kind) {
                (Some(Node::File(inode, _)), Kind::File { .. } | Kind::HardLink { .. }) => {
                    self.check_fresh(path, self.disk.medium(inode));
                }
                (Some(Node::Symlink(found)), Kind::Symlink { target }) if found == *target => {}
                (found, _) => self.violation(format!("`{path}` may go, and a power cut leaves {found:?}")),
            }
        }
    }

    pub(super) fn check_outcome(&self, entry: &Entry, outcome: &Outcome, at_sender: bool) {
        self.check_settled_kind(entry, outcome);
        let (Outcome::Done { digest, .. } | Outcome::Unchanged { digest: digest @ Some(_) }) = outcome else {
            return;
        };
        let side = if at_sender { "sender" } else { "receiver" };
        let path = &entry.path;
        let mut above = path.clone();
        while let Some((parent, _)) = above.split() {
            if parent.is_empty() {
                break;
            }
            above = RelativePath::new(parent.to_vec()).unwrap_or_default();
            let nodes = self.disk.after_power_cut(&Name::Final(above.clone()));
            if nodes.iter().any(|node| *node != Some(Node::Directory)) {
                self.violation(format!("{side}: `{path}` is done, and a power cut takes `{above}`"));
            }
        }
        for (at, node) in self.disk.after_power_cut(&Name::Final(path.clone())).into_iter().enumerate() {
            match (node, &entry.kind) {
                (Some(Node::Directory), Kind::Directory) => {}
                (Some(Node::Symlink(found)), Kind::Symlink { target }) if found == *target => {}
                (Some(Node::File(inode, _)), Kind::File { marked, .. }) => {
                    let content = self.disk.medium(inode);
                    self.check_content(path, content);
                    if at == 0
                        && digest
                            .is_none_or(|digest| digest != file_digest(content, *marked, &self.plan.terms))
                    {
                        self.violation(format!("{side}: `{path}` is done, and not what its digest says"));
                    }
                    self.check_fresh(path, content);
                }
                (Some(Node::File(inode, _)), Kind::HardLink { .. }) => {
                    self.check_content(path, self.disk.medium(inode));
                    self.check_fresh(path, self.disk.medium(inode));
                }
                (found, _) => {
                    self.violation(format!("{side}: `{path}` is done, and a power cut leaves {found:?}"))
                }
            }
        }
    }

    /// What is said to be done now is of this run, not of an earlier one.
    pub(super) fn check_fresh(&self, path: &RelativePath, content: &[u8]) {
        let since = self.sender.as_ref().map_or(Duration::ZERO, |sender| sender.started);
        let known = self.source.file_at(path).map(|file| &self.source.files[file]);
        if !known.is_some_and(|file| file.had(content, since)) {
            self.violation(format!("`{path}` is done with content that was old before the command began"));
        }
    }

    /// An entry fails only for reasons that a fault here gives.
    pub(super) fn check_settled_kind(&self, entry: &Entry, outcome: &Outcome) {
        let Outcome::Failed(failure) = outcome else { return };
        let by_source =
            matches!(failure.kind, FailureKind::Changed | FailureKind::NotFound | FailureKind::Permission)
                && self.plan.faults.contains(&Fault::SourceChange);
        let by_stranger = matches!(failure.kind, FailureKind::Conflict | FailureKind::Changed)
            && self.plan.faults.contains(&Fault::Stranger);
        if !by_stranger && !by_source {
            self.violation(format!("`{}` failed without a reason: {failure}", entry.path));
        }
    }

    /// A transfer fails only for reasons that a fault here gives.
    pub(super) fn check_failure(&self, failure: &Failure) {
        let allowed = match failure.kind {
            FailureKind::Space => self.plan.faults.contains(&Fault::DiskFull),
            FailureKind::Io => self.plan.faults.contains(&Fault::SyncError),
            _ => false,
        };
        if !allowed {
            self.violation(format!("the transfer failed without a reason: {failure}"));
        }
    }

    pub(super) fn note_durable(&mut self, say: &Say) {
        let (Say::Ack(AckLevel::Durable, runs), Some(receiver)) = (say, &self.receiver) else { return };
        let conn = receiver.conn.unwrap_or(self.conns.len().saturating_sub(1));
        for (id, run) in runs {
            let Some(entry) = receiver.entries.get(id) else { continue };
            let chunks = self.acked.entry((entry.path.clone(), entry.evidence.ctime)).or_default();
            for chunk in run.first..run.first + run.count {
                chunks.entry(chunk).or_insert(conn);
            }
        }
    }

    /// What was acknowledged as durable is found again.
    pub(super) fn check_resumed(&self, entry: &Entry, decided: &Decided) {
        let Some(acked) = self.acked.get(&(entry.path.clone(), entry.evidence.ctime)) else { return };
        // What came of it as a file before is found when it is offered as one again.
        if matches!(entry.kind, Kind::HardLink { .. }) {
            return;
        }
        let found: BTreeSet<u64> = match decided {
            Decided::Settled { .. } => return,
            Decided::Fresh => BTreeSet::new(),
            // They may be in the file that has its name by now.
            Decided::Wanted { candidate: Some(_), .. } => return,
            Decided::Wanted { present, .. } => present.iter().map(|&(chunk, _)| chunk).collect(),
        };
        if let Some(chunk) = acked.keys().find(|chunk| !found.contains(chunk)) {
            self.violation(format!("chunk {chunk} of `{}` was durable and is not there", entry.path));
        }
    }

    /// A run is over: everything that was not left out or failed stands there, durable.
    pub(super) fn check_everything_durable(&self) {
        let Some(sender) = &self.sender else { return };
        for (at, (path, node)) in self.source.nodes.iter().enumerate() {
            let settled = sender.account.get(path).and_then(Option::as_ref);
            if let Some(Outcome::Done { .. } | Outcome::Unchanged { .. }) = settled {
                for found in self.disk.after_power_cut(&Name::Final(path.clone())) {
                    let there = match (&found, node) {
                        (Some(Node::Directory), source::Node::Directory) => true,
                        (Some(Node::Symlink(found)), source::Node::Symlink(target)) => found == target,
                        (
                            Some(Node::File(inode, _)),
                            source::Node::File(file) | source::Node::Link(file, _),
                        ) => self.source.files[*file].had(self.disk.medium(*inode), sender.started),
                        _ => false,
                    };
                    if !there {
                        self.violation(format!(
                            "`{path}` (node {at}) is settled, and a power cut leaves {found:?}"
                        ));
                    }
                }
            }
        }
    }

    /// Without faults nothing is sent twice.
    pub(super) fn check_sent_once(&self) {
        let Some(sender) = &self.sender else { return };
        let progress = sender.machine.progress();
        if progress.bytes_sent > progress.bytes_offered {
            self.violation(format!("bytes were sent again without a reason: {progress:?}"));
        }
    }

    /// Some names have content already: old, or what the source has.
    pub(super) fn put_old_content(&mut self) {
        let random = &mut self.random;
        let mut content = Vec::new();
        for (path, node) in &self.source.nodes {
            let source::Node::File(file) = node else { continue };
            if path.as_bytes().contains(&b'/') || !random.percent(25) {
                continue;
            }
            let file = &self.source.files[*file];
            let same = random.percent(50);
            let mut bytes = Vec::clone(file.now());
            if !same && random.percent(50) {
                bytes = b"old".repeat(random.within(0, 400) as usize);
            } else if !same && !bytes.is_empty() {
                // Some of it is the source's.
                for _ in 0..random.within(1, 3) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1;
                }
                bytes.truncate(if random.percent(50) { bytes.len() } else { bytes.len() / 2 });
            }
            content.push((path.clone(), bytes, same.then_some(file.evidence)));
        }
        for (path, bytes, evidence) in content {
            let inode = self.disk.create(Name::Final(path.clone()), bytes.len());
            self.disk.write(inode, 0, &bytes);
            self.disk.set(vec![(Name::Final(path.clone()), Some(Node::File(inode, evidence)))]);
            let mark = self.disk.mark();
            self.disk.sync(mark, [inode].into_iter(), &mut self.random);
            self.before.insert(path, bytes);
        }
    }
}
