//! Options of links: how a far place is reached, ssh, and streams in TLS form.

use crate::args::{stream_count, whole};
use crate::place::Places;
use crate::units;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_client::far_movers::{How, SshOptions, Whom};
use thalweg_client::options::{addresses, congestion};
use thalweg_mover::event::Events;
use thalweg_mover::link::ktls::{RECORDS_MAX, RECORDS_MIN};
use thalweg_mover::link::{Family, KernelTls, TlsForm};
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::far_mover::AskedOfWay;
use thalweg_mover::run::spread::Local;
use thalweg_sys::priority::Priority;
use thalweg_wire::hello::Cipher;

/// How a far place is reached, and for how long: of copies, and of other commands that keep a link standing.
#[derive(Debug, clap::Args)]
pub struct LinkArgs {
    /// Before the options themselves, for what is read of them is taken.
    #[command(flatten)]
    pub typed: TypedWay,
    /// TCP connections (default: by round trip and cores)
    #[arg(long, value_name = "N", value_parser = stream_count())]
    pub streams: Option<u16>,
    /// How its streams answer congestion.
    #[command(flatten)]
    pub congestion: CongestionArgs,
    /// Which ways they take.
    #[command(flatten)]
    pub way: WayArgs,
    /// What `thalweg serve` wrote: whom to expect and who we are
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Places that ssh reaches.
    #[command(flatten)]
    pub ssh: SshArgs,
    /// Which addresses are dialled.
    #[command(flatten)]
    pub family: FamilyArgs,
    /// Drop a link that acknowledges nothing for so long, and dial again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_stall)]
    pub stall_timeout: Duration,
    /// Give up without progress for so long
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = units::parse_stall)]
    pub patience: Duration,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

impl LinkArgs {
    /// How far movers are reached by one whose keys are in `state`.
    pub fn how(&self, places: &Places, state: &Path, priority: Priority, events: Events) -> How {
        let ssh = SshOptions { priority, ..self.ssh.options() };
        How {
            patience: self.patience,
            stall_timeout: self.stall_timeout,
            state: Some(state.to_owned()),
            events,
            family: self.family.only(),
            ..self.way.on(How::to_ask(places, self.ticket.as_deref(), ssh))
        }
    }

    /// How patient the link is, and how data are protected on it; the rest as usual.
    pub fn settings(&self) -> LinkSettings {
        LinkSettings { stall_timeout: self.stall_timeout, patience: self.patience, ..self.way.settings() }
    }
}

/// Which ways data streams take, and how they are protected there: of all commands that move data over a link.
#[derive(Debug, clap::Args)]
pub struct WayArgs {
    /// Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the
    /// ticket names
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = addresses::parse_via)]
    pub via: Vec<String>,
    /// Addresses or network cards of this machine over which data streams are spread
    #[arg(long, value_name = "ADDRESS|CARD", value_delimiter = ',', value_parser = addresses::parse_local)]
    pub bind: Vec<Local>,
    /// Protection of the data streams
    #[arg(long, value_enum)]
    pub cipher: Option<CipherArg>,
    /// With `--cipher tls`.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl WayArgs {
    /// The same far movers, with data streams on these ways.
    pub fn on(&self, how: How) -> How {
        How { via: self.via.clone(), bind: self.bind.clone(), ..how }
    }

    /// How data streams are protected; the rest as usual.
    pub fn settings(&self) -> LinkSettings {
        let usual = LinkSettings::default();
        let cipher = self.cipher.map_or(usual.cipher, CipherArg::cipher);
        LinkSettings { cipher, tls_form: self.tls.form(), ..usual }
    }
}

/// How data streams are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CipherArg {
    /// Sealed frames, AES-128-GCM
    Aes128,
    /// Sealed frames, AES-256-GCM
    Aes256,
    /// Sealed frames, ChaCha20-Poly1305
    Chacha20,
    /// Plain TLS 1.3 records
    Tls,
}

impl CipherArg {
    /// As a link takes it.
    pub fn cipher(self) -> Cipher {
        match self {
            CipherArg::Aes128 => Cipher::Aes128Gcm,
            CipherArg::Aes256 => Cipher::Aes256Gcm,
            CipherArg::Chacha20 => Cipher::ChaCha20Poly1305,
            CipherArg::Tls => Cipher::Tls,
        }
    }
}

/// How data streams answer congestion.
#[derive(Debug, clap::Args)]
pub struct CongestionArgs {
    /// Congestion control of the side that sends, for instance cubic or bbr
    #[arg(long, value_name = "NAME", value_parser = congestion::parse)]
    pub cca: Option<String>,
}

/// Options for places that ssh reaches.
#[derive(Debug, clap::Args)]
pub struct SshArgs {
    /// The ssh to start, with its options; split into words, never given to a shell
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh")]
    pub rsh: OsString,
    /// Port of sshd
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>(1..=65_535))]
    pub port: Option<u16>,
    /// The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin,
    /// else in ~/.local/bin)
    #[arg(long, value_name = "PROGRAM")]
    pub far_path: Option<OsString>,
    /// Ports that the far side may listen at, if a firewall lets only some through
    #[arg(long, value_name = "LOW-HIGH", value_parser = units::parse_ports)]
    pub far_ports: Option<(u16, u16)>,
    /// Ports that this side may listen at where the far side dials, if a firewall lets only some through
    #[arg(long, value_name = "LOW-HIGH", value_parser = units::parse_ports)]
    pub near_ports: Option<(u16, u16)>,
    /// If the far side has no thalweg, place our own static one in its user's cache
    #[arg(long)]
    pub bootstrap: bool,
    /// Let data ride in ssh at once, as they do where every port is shut: slow over a distance
    #[arg(long)]
    pub via_ssh: bool,
}

impl SshArgs {
    /// As the library takes them.
    pub fn options(&self) -> SshOptions {
        SshOptions {
            rsh: self.rsh.clone(),
            port: self.port,
            far_path: self.far_path.clone(),
            far_ports: self.far_ports,
            near_ports: self.near_ports,
            bootstrap: self.bootstrap,
            via_ssh: self.via_ssh,
            ..SshOptions::default()
        }
    }
}

/// Which addresses are dialled: of all commands that reach a far place.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct FamilyArgs {
    /// Dial only addresses of IPv4, by ssh too
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Dial only addresses of IPv6, by ssh too
    #[arg(short = '6', long)]
    pub ipv6: bool,
}

impl FamilyArgs {
    /// As the library takes it.
    pub fn only(self) -> Option<Family> {
        match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::Four),
            (false, true) => Some(Family::Six),
            (false, false) => None,
        }
    }
}

/// Which options of the way to a far place were typed. From the environment or a file they are for other commands too;
/// whoever types them thinks that they count.
#[derive(Debug, Clone, Default)]
pub struct TypedWay {
    /// Options of data streams.
    pub of_streams: AskedOfWay,
    /// `--ticket`.
    pub has_ticket: bool,
    of_ssh: Vec<&'static str>,
    family: Option<&'static str>,
}

/// Options that do nothing beside [`VIA_SSH`].
const FAR_PORTS: &str = "--far-ports";
const NEAR_PORTS: &str = "--near-ports";
const VIA_SSH: &str = "--via-ssh";

/// Names of [`SshArgs`], and the options as they are told.
const OF_SSH: [(&str, &str); 7] = [
    ("rsh", "-e"),
    ("port", "--port"),
    ("far_path", "--far-path"),
    ("far_ports", FAR_PORTS),
    ("near_ports", NEAR_PORTS),
    ("bootstrap", "--bootstrap"),
    ("via_ssh", VIA_SSH),
];

/// Names of [`FamilyArgs`], and the options as they are told.
const FAMILIES: [(&str, &str); 2] = [("ipv4", "-4"), ("ipv6", "-6")];

impl TypedWay {
    /// Those that do nothing where the places of a command are at these far movers, each with its reason, unless all of
    /// it is within this machine.
    pub fn unused(&self, far: &[Whom]) -> Vec<String> {
        let needs_ticket = far.iter().any(|whom| matches!(whom, Whom::Daemon(_, None)));
        let has_ssh = far.iter().any(|whom| matches!(whom, Whom::Ssh(..)));
        let ticket = (self.has_ticket && !needs_ticket).then_some(("--ticket", "no place needs it"));
        let is_carried = self.of_ssh.contains(&VIA_SSH);
        let of_ssh = self.of_ssh.iter().filter_map(|&name| match name {
            _ if !has_ssh => Some((name, "no place is reached by ssh")),
            FAR_PORTS | NEAR_PORTS if is_carried => Some((name, "data ride in ssh")),
            _ => None,
        });
        let family = self.family.filter(|_| far.is_empty()).map(|name| (name, "nobody is dialled"));
        let told = |(name, why): (&str, &str)| match far.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({why})"),
        };
        ticket.into_iter().chain(of_ssh).chain(family).map(told).collect()
    }
}

impl clap::Args for TypedWay {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

impl FromArgMatches for TypedWay {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        // Not each command has all of them.
        let is_there = |name: &str| matches.try_contains_id(name).unwrap_or(false);
        let is_typed =
            |name: &str| is_there(name) && matches.value_source(name) == Some(ValueSource::CommandLine);
        let of_ssh = OF_SSH.iter().filter(|(name, _)| is_typed(name)).map(|(_, option)| *option);
        let family = FAMILIES.iter().find(|(name, _)| is_typed(name)).map(|(_, option)| *option);
        let of_streams = AskedOfWay {
            via: is_typed("via"),
            bind: is_typed("bind"),
            cipher: is_typed("cipher"),
            ktls: is_typed("ktls"),
            tls_records: is_typed("tls_records"),
        };
        Ok(TypedWay { of_streams, has_ticket: is_typed("ticket"), of_ssh: of_ssh.collect(), family })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// How streams in TLS form are, of either side.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct TlsArgs {
    /// With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured
    /// to be faster, wherever the kernel can, or never
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub ktls: KtlsArg,
    /// With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640,
    /// which is short of what a key may seal
    #[arg(long, value_name = "COUNT", default_value_t = RECORDS_MAX,
          value_parser = whole::<u64>(i128::from(RECORDS_MIN)..=i128::from(RECORDS_MAX)))]
    pub tls_records: u64,
}

impl TlsArgs {
    /// As the mover takes it.
    pub fn form(self) -> TlsForm {
        let kernel = match self.ktls {
            KtlsArg::Auto => KernelTls::Auto,
            KtlsArg::On => KernelTls::On,
            KtlsArg::Off => KernelTls::Off,
        };
        TlsForm { kernel, records_max: self.tls_records }
    }
}

/// Whether the kernel seals TLS records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KtlsArg {
    /// Where it was measured to be faster
    Auto,
    /// Wherever the kernel can
    On,
    /// Never
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::frames::FramesCommand;
    use crate::args::{Args, Command};
    use crate::config;
    use clap::ValueEnum;
    use thalweg_service::sessions::HostLimits;

    fn typed(file: &str, words: &[&str]) -> TypedWay {
        let command =
            config::apply(Path::new("config.toml"), file, config::command(), &mut Places::default()).unwrap();
        let matches = command.try_get_matches_from([&["thalweg", "cp", "a", "b"], words].concat()).unwrap();
        match Args::from_arg_matches(&matches).unwrap().command {
            Command::Cp(args) => args.link.typed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_a_way_that_no_copy_takes_are_named_if_they_were_typed() {
        let all = [
            "--ticket",
            "/t",
            "-e",
            "foo",
            "--port",
            "33",
            "--far-path",
            "/x",
            "--far-ports",
            "1-3",
            "--near-ports",
            "4-4",
            "--bootstrap",
        ];
        let all = typed("", &all);
        let here = all.unused(&[]);
        let names = ["--ticket", "-e", "--port", "--far-path", "--far-ports", "--near-ports", "--bootstrap"];
        assert_eq!(here, names);
        let daemon = |ticket: Option<&str>| Whom::Daemon("h:1".to_owned(), ticket.map(PathBuf::from));
        for option in ["-4", "-6"] {
            let family = typed("", &[option]);
            assert_eq!(family.unused(&[]), [option]);
            assert!(family.unused(&[daemon(None)]).is_empty());
        }
        // That is a number.
        assert!(typed("", &["--nice", "-4"]).unused(&[]).is_empty());
        let ssh = Whom::Ssh("h".to_owned(), None);
        let at_daemon = all.unused(&[daemon(None)]);
        assert_eq!(at_daemon.len(), 6, "{at_daemon:?}");
        assert_eq!(at_daemon[1], "--port (no place is reached by ssh)");
        assert_eq!(all.unused(&[ssh.clone(), daemon(Some("/own"))]), ["--ticket (no place needs it)"]);
        assert!(all.unused(&[ssh, daemon(None)]).is_empty());
        // Where data ride in ssh nobody listens.
        let ports = typed("", &["--far-ports", "1-3", "--near-ports", "4-4", "--via-ssh"]);
        let told = ["--far-ports (data ride in ssh)", "--near-ports (data ride in ssh)"];
        assert_eq!(ports.unused(&[Whom::Ssh("h".to_owned(), None)]), told);
        // A file has them for every command.
        assert!(typed("ticket = \"/t\"\n", &[]).unused(&[]).is_empty());
        let way = "bind = [\"eth2\"]\nvia = [\"h\"]\ncipher = \"tls\"\nktls = \"on\"\ntls-records = 2048\n";
        assert_eq!(typed(way, &[]).of_streams, AskedOfWay::default());
        let all = ["--bind", "lo", "--via", "h", "--cipher", "tls", "--ktls", "on", "--tls-records", "2048"];
        let AskedOfWay { via, bind, cipher, ktls, tls_records } = typed(way, &all).of_streams;
        assert!(via && bind && cipher && ktls && tls_records);
    }

    /// Python and messages of links have them from the ciphers, which have no help.
    #[test]
    fn every_cipher_is_asked_for_by_its_word() {
        let words: Vec<(String, &str)> = CipherArg::value_variants()
            .iter()
            .map(|arg| (arg.to_possible_value().unwrap().get_name().to_owned(), arg.cipher().word()))
            .collect();
        assert!(words.iter().all(|(typed, word)| typed == word), "{words:?}");
        assert_eq!(words.len(), Cipher::ALL.len());
    }

    /// The command line says its defaults in words, for its help; the engine has them as constants.
    #[test]
    fn a_link_of_which_nothing_is_said_is_as_patient_as_the_engine_has_it() {
        let parsed = |words: &str| {
            let matches = config::command().try_get_matches_from(words.split(' ')).unwrap();
            Args::from_arg_matches(&matches).unwrap().command
        };
        let usual = LinkSettings::default();
        for words in [
            "thalweg cp a b",
            "thalweg frames push --frame-bytes 1 - tw://h/x",
            "thalweg serve --export data=/data",
        ] {
            let (stall_timeout, patience) = match parsed(words) {
                Command::Cp(args) => (args.link.stall_timeout, args.link.patience),
                Command::Frames(FramesCommand::Push(args)) => (args.link.stall_timeout, args.link.patience),
                Command::Serve(args) => (args.stall_timeout, args.patience),
                other => panic!("{other:?}"),
            };
            assert_eq!((stall_timeout, patience), (usual.stall_timeout, usual.patience), "{words}");
        }
        let server = HostLimits::default();
        assert_eq!((server.stall_timeout, server.patience), (usual.stall_timeout, usual.patience));
    }
}
