//! Far movers that a command needs: places at the same daemon or ssh host share one. So do places in one bucket its
//! store.

use crate::objects::{Bucket, Location, Settings};
use crate::place::{Place, Places, plain};
use crate::tokens::Discovered;
use crate::{identity, ssh, threads};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use thalweg_mover::event::{self, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{Family, Identity, Pass, ServerTrust, TokenSource, client_config};
use thalweg_mover::run::by_client::ClientLine;
use thalweg_mover::run::client::{CONNECT, Client, LinkSettings, TcpConnect};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_mover::run::spread::{Local, may_be_of};
use thalweg_sys::priority::Priority;
use thalweg_wire::message;
use thalweg_wire::path::Escaped;

/// How far movers are reached.
#[derive(Clone)]
pub struct How {
    /// Places that have names.
    pub places: Places,
    /// Whom to expect at a daemon that has no ticket of its own, and who we are.
    pub ticket: Option<PathBuf>,
    /// How to start one by ssh.
    pub ssh: SshOptions,
    /// For how long one started by ssh keeps a session without a link, and a store that does not answer is tried again.
    pub patience: Duration,
    /// After how long a silent link counts as lost there.
    pub stall_timeout: Duration,
    /// Where our own identity is: by ssh we are it. Without, we are nobody in particular, and to a daemon that takes
    /// tokens whom [`identity::usual_directory`] has.
    pub state: Option<PathBuf>,
    /// How patient links are that only questions ride on. Default: as links are.
    pub questions: LinkSettings,
    /// Hears notes about the way, before there is a copy.
    pub events: Events,
    /// Addresses of the far side for data streams.
    pub via: Vec<String>,
    /// Addresses and cards of this machine for them.
    pub bind: Vec<Local>,
    /// Only addresses of this family are dialled, by ssh too. Default: any.
    pub family: Option<Family>,
    /// Of a copy that a deputy runs: who starts far movers at ssh hosts in our stead. Default: we start them.
    pub client_line: Option<Arc<ClientLine>>,
}

/// How a far mover is started by the user's own ssh.
#[derive(Debug, Clone)]
pub struct SshOptions {
    /// The ssh to start, with its options; split into words, never given to a shell. Default: `ssh`.
    pub rsh: OsString,
    /// Port of sshd. Default: ssh's own choice.
    pub port: Option<u16>,
    /// The thalweg to start at the far side. Default: `thalweg`, looked for in `~/.cargo/bin` and `~/.local/bin` there
    /// too, see [`FarProgram::looked_for`](thalweg_mover::link::ssh::FarProgram::looked_for).
    pub far_path: Option<OsString>,
    /// Ports that the far side may listen at, the lowest and the highest. Default: any.
    pub far_ports: Option<(u16, u16)>,
    /// Ports that we may listen at where the far side dials, the lowest and the highest. Default: any.
    pub near_ports: Option<(u16, u16)>,
    /// If the far side has no thalweg, place our own static one in its user's cache. Default: no.
    pub bootstrap: bool,
    /// Where that static one may be, in this order, if the program that runs is not ours. Default: it is the
    /// one that runs, or beside it.
    pub static_programs: Option<Vec<PathBuf>>,
    /// Data ride in ssh. Default: only where every port is shut.
    pub via_ssh: bool,
    /// Where other hosts are logged in to beside this one, each first without asking for anything: for how long sshd
    /// may not answer, in whole seconds; a password may be typed for longer. Default: it is alone, and ssh as it is
    /// set.
    pub connect_max: Option<Duration>,
    /// How the far mover stands to others there. Default: as sshd starts it.
    pub priority: Priority,
}

impl Default for SshOptions {
    fn default() -> SshOptions {
        SshOptions {
            rsh: "ssh".into(),
            port: None,
            far_path: None,
            far_ports: None,
            near_ports: None,
            bootstrap: false,
            static_programs: None,
            via_ssh: false,
            connect_max: None,
            priority: Priority::default(),
        }
    }
}

/// For how long a far mover that ssh started waits for who only asks, where nobody says otherwise: most answers that
/// are cut off are not resumed.
const ASKING_PATIENCE: Duration = Duration::from_secs(30);

impl How {
    /// For commands that only ask, and copy nothing: what the way to data streams costs does not concern them.
    pub fn to_ask(places: &Places, ticket: Option<&Path>, ssh: SshOptions) -> How {
        How {
            places: places.clone(),
            ticket: ticket.map(Path::to_owned),
            ssh,
            patience: ASKING_PATIENCE,
            stall_timeout: ASKING_PATIENCE,
            state: None,
            questions: LinkSettings::default(),
            events: event::nobody(),
            via: Vec::new(),
            bind: Vec::new(),
            family: None,
            client_line: None,
        }
    }
}

/// What tells one far mover from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// A daemon at this address, with this ticket.
    Daemon(String, Option<PathBuf>),
    /// An ssh host, and its port.
    Ssh(String, Option<u16>),
}

/// A far mover that was reached.
#[derive(Clone)]
pub struct Reached {
    /// The far mover.
    pub far: Arc<FarMover>,
}

/// See the module. They are closed with the value.
pub struct FarMovers {
    how: How,
    known: Vec<(Whom, Reached)>,
    /// Those that were to be reached together, and were not.
    failed: Vec<(Whom, Failure)>,
    buckets: Vec<Bucket>,
}

impl Whom {
    /// The far mover that a place is at; `None` for places of this machine, and in buckets.
    pub fn of(place: &Place) -> Option<Whom> {
        match place {
            Place::Daemon { address, ticket, .. } => Some(Whom::Daemon(address.clone(), ticket.clone())),
            Place::Ssh { host, port, .. } => Some(Whom::Ssh(host.clone(), *port)),
            // Whoever has the client talks to the store.
            Place::Local(_)
            | Place::Zero(_)
            | Place::Dataset(_)
            | Place::Simulated(_)
            | Place::Null
            | Place::Object { .. } => None,
        }
    }

    /// Whether both are one. The same host at another port may be another machine, behind a tunnel.
    fn is_same_mover(&self, other: &Whom) -> bool {
        match (self, other) {
            // Who we are to it says nothing of what is there.
            (Whom::Daemon(one, _), Whom::Daemon(other, _)) => one == other,
            (one, other) => one == other,
        }
    }
}

/// A place as its far mover knows it; `None` for places of this machine, and in buckets.
pub fn place_there(place: &Place) -> Option<message::Place> {
    match place {
        Place::Daemon { export, path, .. } => {
            Some(message::Place { export: Some(export.clone()), path: path.clone() })
        }
        Place::Ssh { path, .. } => Some(ssh::place(path.clone())),
        Place::Local(_)
        | Place::Zero(_)
        | Place::Dataset(_)
        | Place::Simulated(_)
        | Place::Null
        | Place::Object { .. } => None,
    }
}

/// Whether two places are at the same far mover.
pub(crate) fn is_same_mover(one: &Place, other: &Place) -> bool {
    match (Whom::of(one), Whom::of(other)) {
        (Some(one), Some(other)) => one.is_same_mover(&other),
        _ => false,
    }
}

/// Refuses addresses for data streams where places are at two far movers: those to the one would be dialled at the
/// other.
///
/// # Errors
/// `Usage`.
pub fn check_via<'a>(via: &[String], far: impl IntoIterator<Item = &'a Whom>) -> Result<()> {
    let mut far = far.into_iter();
    let Some(first) = far.next() else { return Ok(()) };
    if via.iter().any(|via| via != TICKET) && far.any(|other| !first.is_same_mover(other)) {
        let cause = "--via names addresses of one far side, and there are two: at daemons, `--via ticket` is each one's own";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    Ok(())
}

/// Refuses `--via ticket` for a far mover that ssh reaches.
///
/// # Errors
/// `Usage`.
pub fn check_ticket_via(via: &[String], whom: &Whom) -> Result<()> {
    if matches!(whom, Whom::Ssh(..)) && via.iter().any(|via| via == TICKET) {
        let cause = "`--via ticket` is for daemons: by ssh there is no ticket";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    Ok(())
}

/// Refuses addresses of the other family where only one is dialled.
///
/// # Errors
/// `Usage`.
pub fn check_family(whom: &Whom, how: &How) -> Result<()> {
    let Some(family) = how.family else { return Ok(()) };
    let place = match whom {
        Whom::Daemon(address, _) => address.as_str(),
        Whom::Ssh(host, _) => host.rsplit_once('@').map_or(host.as_str(), |(_, host)| host),
    };
    let via = how.via.iter().filter(|via| *via != TICKET).cloned();
    let bound = how.bind.iter().filter_map(|local| match local {
        Local::Address(address) => Some(address.to_string()),
        Local::Interface(_) => None,
    });
    let mut named = std::iter::once(place.to_owned()).chain(via).chain(bound);
    named.find(|text| !may_be_of(family, text)).map_or(Ok(()), |text| Err(of_other_family(family, &text)))
}

fn of_other_family(family: Family, text: &str) -> Failure {
    let (text, option) = (Escaped(text.as_bytes()), family.option());
    let cause = format!("`{text}` is no address of {family}, and only such are used ({option})");
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

/// Whether `inner` is the far place `outer`, or below it, as far as their names tell: links are not looked at, and a
/// path with `..` may lead anywhere.
pub fn holds(outer: &Place, inner: &Place) -> bool {
    let is_same_mover = is_same_mover(outer, inner);
    let (Some(outer), Some(inner)) = (place_there(outer), place_there(inner)) else { return false };
    let is_same_export = outer.export == inner.export;
    let (outer, inner) = (plain(&outer.path), plain(&inner.path));
    let is_same_root = outer.starts_with(b"/") == inner.starts_with(b"/");
    let climbs = |path: &[u8]| path.split(|&byte| byte == b'/').any(|part| part == b"..");
    let is_below = inner.strip_prefix(outer.as_slice()).is_some_and(|rest| {
        rest.is_empty() || outer.is_empty() || outer.ends_with(b"/") || rest.starts_with(b"/")
    });
    is_same_mover && is_same_export && is_same_root && is_below && !climbs(&outer) && !climbs(&inner)
}

/// Whether a place is a name in a directory, which can be removed: `/`, `.`, an export or a bucket itself and what ends
/// in `..` are not. Places that have nothing in them (`zero:`) count as such; nobody gets to remove them.
pub fn has_name(place: &Place) -> bool {
    let is_name = |path: &[u8]| Path::new(OsStr::from_bytes(path)).file_name().is_some();
    match (place, place_there(place)) {
        (Place::Local(path), _) => path.file_name().is_some(),
        (Place::Object { location, .. }, _) => !location.key.is_empty(),
        // An export is left by no path: its daemon refuses every `..`.
        (_, Some(message::Place { export: Some(_), path })) => {
            is_name(&path) && !path.split(|&byte| byte == b'/').any(|part| part == b"..")
        }
        (_, Some(message::Place { export: None, path })) => is_name(&path),
        (_, None) => true,
    }
}

impl FarMovers {
    /// None yet.
    pub fn new(how: How) -> FarMovers {
        FarMovers { how, known: Vec::new(), failed: Vec::new(), buckets: Vec::new() }
    }

    /// Reads a place.
    ///
    /// # Errors
    /// As [`Place::parse`].
    pub fn named(&self, text: &OsStr) -> Result<Place> {
        Place::parse(text, &self.how.places)
    }

    /// The ticket, or the place file, for a daemon; `None` if there is none, or it is reached by ssh.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn ticket(&self, whom: &Whom) -> Result<Option<Pass>> {
        match whom {
            Whom::Daemon(_, ticket) => {
                ticket.as_ref().or(self.how.ticket.as_ref()).map(|path| Pass::read(path)).transpose()
            }
            Whom::Ssh(..) => Ok(None),
        }
    }

    /// The far mover there. By ssh it is started, the first time; its user may be asked for a password, so this comes
    /// before anything that draws on the terminal.
    ///
    /// # Errors
    /// `Usage` without a ticket, and as [`check_via`] and [`check_family`]; by ssh as [`ssh::far`].
    pub fn reach(&mut self, whom: &Whom) -> Result<Reached> {
        if let Some((_, reached)) = self.known.iter().find(|(known, _)| known == whom) {
            return Ok(reached.clone());
        }
        if let Some((_, failure)) = self.failed.iter().find(|(failed, _)| failed == whom) {
            return Err(failure.clone());
        }
        check_via(&self.how.via, self.known.iter().map(|(known, _)| known).chain([whom]))?;
        check_ticket_via(&self.how.via, whom)?;
        check_family(whom, &self.how)?;
        let reached = match whom {
            Whom::Daemon(address, _) => daemon(address, self.ticket(whom)?, &self.how)?,
            Whom::Ssh(host, port) => by_ssh(host, *port, &self.how)?,
        };
        self.known.push((whom.clone(), reached.clone()));
        Ok(reached)
    }

    /// Reaches those of them that are by ssh, if they are several, at the same time: one that does not answer delays no
    /// other. What became of each says [`FarMovers::reach`]; none is tried twice.
    ///
    /// # Errors
    /// `Usage` as [`FarMovers::reach`], before anybody is reached.
    pub fn reach_together(&mut self, all: &[Whom]) -> Result<()> {
        check_via(&self.how.via, all)?;
        let mut hosts: Vec<(&Whom, &str, Option<u16>)> = Vec::new();
        for whom in all {
            check_ticket_via(&self.how.via, whom)?;
            check_family(whom, &self.how)?;
            let is_new = self.known.iter().all(|(known, _)| known != whom)
                && hosts.iter().all(|(other, ..)| *other != whom);
            if let Whom::Ssh(host, port) = whom
                && is_new
            {
                hosts.push((whom, host, *port));
            }
        }
        if hosts.len() < 2 {
            return Ok(());
        }
        let how = &self.how;
        let reached: Vec<Result<Reached>> = std::thread::scope(|scope| {
            let logins: Vec<_> = hosts
                .iter()
                .map(|&(_, host, port)| {
                    threads::spawn_scoped(scope, "login", move || by_ssh(host, port, how))
                })
                .collect();
            let end = |login: Result<ScopedJoinHandle<'_, Result<Reached>>>| match login?.join() {
                Ok(reached) => reached,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            logins.into_iter().map(end).collect()
        });
        for ((whom, ..), reached) in hosts.into_iter().zip(reached) {
            match reached {
                Ok(reached) => self.known.push((whom.clone(), reached)),
                Err(failure) => self.failed.push((whom.clone(), failure)),
            }
        }
        Ok(())
    }

    /// Who started the deputy that runs this copy, if one does.
    pub(crate) fn client_line(&self) -> Option<Arc<ClientLine>> {
        self.how.client_line.clone()
    }

    /// A place in a bucket. Its store is opened the first time; one that does not answer is tried again for as long as
    /// a far mover is waited for.
    ///
    /// # Errors
    /// As [`Bucket::open`].
    pub fn bucket(&mut self, location: &Location, settings: &Settings) -> Result<Bucket> {
        if let Some(known) = self.buckets.iter().find(|bucket| bucket.holds(location, settings)) {
            return Ok(known.at(location));
        }
        let bucket = Bucket::open(location, settings, self.how.patience)?;
        self.buckets.push(bucket.clone());
        Ok(bucket)
    }

    /// A session of its own with the far mover there, for questions.
    ///
    /// # Errors
    /// As [`FarMovers::reach`] and [`FarMover::dial`].
    pub fn dial(&mut self, whom: &Whom) -> Result<Client> {
        let reached = self.reach(whom)?;
        reached.far.dial(self.how.questions.clone(), event::nobody())
    }

    /// What such a session is begun with.
    pub(crate) fn questions(&mut self, whom: &Whom) -> Result<(Arc<FarMover>, LinkSettings)> {
        Ok((self.reach(whom)?.far, self.how.questions.clone()))
    }
}

impl Drop for FarMovers {
    fn drop(&mut self) {
        for (_, reached) in &self.known {
            reached.far.close();
        }
    }
}

/// In `--via`: all addresses of the ticket.
const TICKET: &str = "ticket";

/// There is no ticket for the daemon at this address.
pub fn lacks_ticket(address: &str) -> Failure {
    lacks_ticket_by(address, "--ticket or THALWEG_TICKET")
}

/// The same where it is given by this option.
pub(crate) fn lacks_ticket_by(address: &str, option: &str) -> Failure {
    let cause = format!(
        "`{}`: a daemon asks who you are: give the ticket or the place file that it wrote with {option}",
        Escaped(address.as_bytes())
    );
    // Nobody was asked yet.
    Failure::new(FailureKind::Usage, CONNECT, cause)
}

fn by_ssh(host: &str, port: Option<u16>, how: &How) -> Result<Reached> {
    let far = match &how.client_line {
        Some(line) => ssh::far_by_client(line, host, port, how)?,
        None => ssh::far(host, port, how)?,
    };
    let far = far.spread(how.via.clone(), how.bind.clone())?;
    Ok(Reached { far: Arc::new(far) })
}

fn daemon(address: &str, pass: Option<Pass>, how: &How) -> Result<Reached> {
    let pass = pass.ok_or_else(|| lacks_ticket(address))?;
    let (identity, tokens) = who(&pass, how)?;
    let tls = client_config(&identity, &ServerTrust::Pinned(pass.server()))?;
    let connect = TcpConnect::new(vec![address.to_owned()]).only(how.family).showing(tokens);
    let connect = Arc::new(connect);
    let mut of_ticket = pass.addresses().to_vec();
    if let Some(family) = how.family
        && how.via.iter().any(|via| via == TICKET)
    {
        of_ticket.retain(|address| may_be_of(family, address));
        if of_ticket.is_empty() {
            return Err(of_other_family(family, &pass.addresses().join(", ")));
        }
    }
    let via = how.via.iter().flat_map(|via| match via.as_str() {
        TICKET => of_ticket.clone(),
        _ => vec![via.clone()],
    });
    let far = FarMover::new(connect, tls).spread(via.collect(), how.bind.clone())?;
    Ok(Reached { far: Arc::new(far) })
}

/// Who we are to a daemon: whom the ticket says, or ourselves with a token. Without one nobody is dialled.
fn who(pass: &Pass, how: &How) -> Result<(Identity, Option<Arc<dyn TokenSource>>)> {
    let place = match pass {
        Pass::Ticket(ticket) => return Ok((ticket.identity()?, None)),
        Pass::Place(place) => place,
    };
    let tokens = Discovered::of(place);
    tokens.token()?;
    // A daemon remembers each key that came with a token: one of a machine, and not one of each command.
    let own = match how.state.clone().map_or_else(identity::usual_directory, Ok) {
        Ok(state) => identity::own(&state)?,
        Err(_) => Identity::generate("thalweg with a token")?,
    };
    Ok((own, Some(Arc::new(tokens))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_for_data_streams_are_those_of_one_far_side() {
        let daemon = |address: &str, ticket: &str| Whom::Daemon(address.to_owned(), Some(ticket.into()));
        let ssh = || Whom::Ssh("a".to_owned(), None);
        let check = |via: &[&str], far: &[Whom]| {
            check_via(&via.iter().map(|&via| via.to_owned()).collect::<Vec<_>>(), far)
        };
        let two = [[daemon("a:1", "/t"), daemon("b:1", "/t")], [ssh(), daemon("a:1", "/t")]];
        for far in &two {
            for via in [&["10.1.0.7"][..], &["ticket", "10.1.0.7"]] {
                assert_eq!(check(via, far).unwrap_err().kind, FailureKind::Usage, "{via:?} {far:?}");
            }
            check(&[], far).unwrap();
            check(&["ticket"], far).unwrap();
        }
        // Who we are to it does not make another of it.
        check(&["10.1.0.7"], &[daemon("a:1", "/t"), daemon("a:1", "/own")]).unwrap();
        check(&["10.1.0.7"], &[ssh()]).unwrap();
        check(&["10.1.0.7"], &[]).unwrap();
        // Nobody is asked for the second one.
        let how = How::to_ask(&Places::default(), None, SshOptions::default());
        let mut far_movers = FarMovers::new(How { via: vec!["10.1.0.7".to_owned()], ..how });
        far_movers.known.push((ssh(), reached()));
        let refused = far_movers.reach(&daemon("b:1", "/t")).err().unwrap();
        assert!(refused.cause.contains("there are two"), "{refused}");
    }

    /// Each login waits until the other has begun.
    #[test]
    fn several_hosts_by_ssh_are_logged_in_together_and_each_says_itself_why_it_was_not_reached() {
        let scratch = tempfile::tempdir().unwrap();
        // By its name it takes the options of OpenSSH, behind the script.
        let (rsh, script) = (scratch.path().join("ssh"), scratch.path().join("ssh.sh"));
        std::os::unix::fs::symlink("/bin/sh", &rsh).unwrap();
        let text = "case \" $* \" in *' -G '*) exit 0;; esac\n\
                    for word; do test \"$is_host\" && break; test \"$word\" = -- && is_host=1; done\n\
                    cd \"${0%/*}\"; echo >> \"begun-$word\"; tries=0\n\
                    until test -e begun-one && test -e begun-other; do\n\
                    tries=$((tries + 1)); test $tries = 600 && exit 1; sleep 0.1; done\n\
                    exit 255\n";
        std::fs::write(&script, text).unwrap();
        let rsh = format!("'{}' '{}'", rsh.display(), script.display()).into();
        let ssh = SshOptions { rsh, connect_max: Some(Duration::from_secs(60)), ..SshOptions::default() };
        let mut far_movers = FarMovers::new(How::to_ask(&Places::default(), None, ssh));
        let all = ["one", "other"].map(|host| Whom::Ssh(host.to_owned(), None));
        far_movers.reach_together(&all).unwrap();
        let read = |name: &str| std::fs::read(scratch.path().join(name)).unwrap();
        let begun = || ["begun-one", "begun-other"].map(read);
        let before = begun();
        for (whom, name) in all.iter().zip(["one", "other"]) {
            let failure = far_movers.reach(whom).err().unwrap();
            assert_eq!(failure.cause, format!("ssh did not reach {name}"));
        }
        assert_eq!(begun(), before, "one was tried again");
    }

    #[test]
    fn an_address_of_the_other_family_is_refused_by_its_name_before_anybody_is_asked() {
        let refused = |family, whom: Whom, via: &[&str], bind: &[&str]| {
            let how = How {
                family: Some(family),
                via: via.iter().map(ToString::to_string).collect(),
                bind: bind.iter().map(|own| Local::Address(own.parse().unwrap())).collect(),
                ..How::to_ask(&Places::default(), None, SshOptions::default())
            };
            check_family(&whom, &how).err().map(|failure| failure.cause)
        };
        let daemon = |address: &str| Whom::Daemon(address.to_owned(), None);
        let ssh = |host: &str| Whom::Ssh(host.to_owned(), None);
        let (four, six) = (Family::Four, Family::Six);
        for (cause, named) in [
            (refused(four, daemon("[::1]:8487"), &[], &[]), "`[::1]:8487` is no address of IPv4"),
            (refused(six, daemon("10.1.0.7:8487"), &[], &[]), "`10.1.0.7:8487` is no address of IPv6"),
            (refused(four, ssh("me@::1"), &[], &[]), "`::1` is no address of IPv4"),
            (refused(six, daemon("host:1"), &["ticket", "10.1.0.7"], &[]), "`10.1.0.7` is no address"),
            (refused(six, daemon("host:1"), &[], &["10.1.0.8"]), "`10.1.0.8` is no address of IPv6"),
        ] {
            assert!(cause.as_ref().is_some_and(|cause| cause.starts_with(named)), "{named}: {cause:?}");
        }
        assert_eq!(refused(four, daemon("host:1"), &["ticket", "10.1.0.7"], &["10.1.0.8"]), None);
        assert_eq!(refused(six, ssh("me@host"), &[], &[]), None);
        let how = How::to_ask(&Places::default(), None, SshOptions::default());
        let mut far_movers = FarMovers::new(How { family: Some(four), ..how });
        // Before its ticket is asked for.
        let failure = far_movers.reach(&daemon("[::1]:1")).err().unwrap();
        assert!(failure.cause.contains("(-4)"), "{failure}");
    }

    fn reached() -> Reached {
        let identity = Identity::generate("somebody").unwrap();
        let tls = client_config(&identity, &ServerTrust::Pinned(identity.fingerprint())).unwrap();
        let connect = Arc::new(TcpConnect::new(vec!["a:1".to_owned()]));
        Reached { far: Arc::new(FarMover::new(connect, tls)) }
    }
}
