//! How far movers are reached, as Python says it.

use crate::options::{odd, parsed, read, seconds};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use thalweg_client::far_movers::{FarMovers, How, SshOptions};
use thalweg_client::identity;
use thalweg_client::options::congestion::{self, Wished};
use thalweg_client::options::{addresses, units};
use thalweg_client::place::Places;
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::Result;
use thalweg_mover::link::{Family, KernelTls, TlsForm};
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::Movement;
use thalweg_mover::run::far_mover::AskedOfWay;
use thalweg_wire::hello::Cipher;

/// See the module.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Reaching {
    ticket: Option<PathBuf>,
    state: Option<PathBuf>,
    rsh: Option<OsString>,
    port: Option<u16>,
    far_path: Option<OsString>,
    far_ports: Option<String>,
    near_ports: Option<String>,
    bootstrap: bool,
    static_programs: Vec<PathBuf>,
    family: Option<String>,
    via: Vec<String>,
    bind: Vec<String>,
    cca: Option<String>,
    cipher: Option<String>,
    ktls: Option<String>,
    tls_records: Option<u64>,
    patience_s: f64,
    stall_timeout_s: f64,
    /// Which of them stand in the call: others are of the environment, for every call.
    typed: Vec<String>,
}

impl Reaching {
    fn ssh(&self) -> Result<SshOptions> {
        let usual = SshOptions::default();
        Ok(SshOptions {
            rsh: self.rsh.clone().unwrap_or(usual.rsh),
            port: self.port,
            far_path: self.far_path.clone(),
            far_ports: read("far_ports", self.far_ports.as_deref(), units::parse_ports)?,
            near_ports: read("near_ports", self.near_ports.as_deref(), units::parse_ports)?,
            bootstrap: self.bootstrap,
            // The program that runs is the interpreter.
            static_programs: Some(self.static_programs.clone()),
            ..SshOptions::default()
        })
    }

    /// Where keys and what is remembered are kept, if that was said.
    pub fn state(&self) -> Option<&Path> {
        self.state.as_deref()
    }

    /// The state directory of a copy or a stream, to which it is not needed: where there is no room for one, `events`
    /// hears of it.
    pub fn state_if_room(&self, events: &Events) -> Result<PathBuf> {
        let (state, told) = identity::state_if_room(self.state())?;
        if let Some(text) = told {
            events(Event::Note(text));
        }
        Ok(state)
    }

    /// How patient a link is, and how data are protected on it.
    pub fn link(&self) -> Result<LinkSettings> {
        let usual = LinkSettings::default();
        let cipher = match self.cipher.as_deref() {
            None => usual.cipher,
            Some(word) => Cipher::ALL.into_iter().find(|cipher| cipher.word() == word).ok_or_else(|| {
                let words = Cipher::ALL.map(Cipher::word).join(", ");
                odd(format!("cipher={word:?}: one of {words}"))
            })?,
        };
        let kernel = match self.ktls.as_deref() {
            None | Some("auto") => KernelTls::Auto,
            Some("on") => KernelTls::On,
            Some("off") => KernelTls::Off,
            Some(other) => return Err(odd(format!("ktls={other:?}: auto, on or off"))),
        };
        let records_max = self.tls_records.unwrap_or(usual.tls_form.records_max);
        Ok(LinkSettings {
            cipher,
            tls_form: TlsForm { kernel, records_max },
            stall_timeout: seconds(self.stall_timeout_s),
            patience: seconds(self.patience_s),
            ..usual
        })
    }

    /// The same, and which way data take there.
    pub fn movement(&self, asked: plan::Asked) -> Result<Movement> {
        Ok(Movement {
            asked,
            link: self.link()?,
            has_via: !self.via.is_empty(),
            has_bind: !self.bind.is_empty(),
            ..Movement::default()
        })
    }

    /// The congestion control that was asked for, where this machine `sends`, or does not.
    pub fn congestion(&self, sends: bool) -> Result<Wished> {
        let asked = read("cca", self.cca.as_deref(), congestion::parse)?;
        congestion::wished(asked.as_deref(), sends)
    }

    /// The link of one who has nobody to tell notes to, and `sends`, or does not.
    pub fn link_without_notes(&self, sends: bool) -> Result<LinkSettings> {
        let congestion = self.congestion(sends)?.or_refused()?.where_we_send(sends);
        Ok(LinkSettings { congestion, ..self.link()? })
    }

    /// Options of data streams of which it is told where they do nothing.
    pub fn asked_of_way(&self) -> AskedOfWay {
        let is_typed = |name: &str| self.typed.iter().any(|typed| typed == name);
        AskedOfWay {
            via: is_typed("via"),
            bind: is_typed("bind"),
            cipher: is_typed("cipher"),
            ktls: is_typed("ktls"),
            tls_records: is_typed("tls_records"),
        }
    }

    /// For questions.
    pub fn to_ask(&self) -> Result<FarMovers> {
        let questions = self.link()?;
        // As long as we dial one again, ssh's waits for us.
        Ok(FarMovers::new(How { patience: questions.patience, questions, ..self.asking()? }))
    }

    fn asking(&self) -> Result<How> {
        let family = match self.family.as_deref() {
            None => None,
            Some("ipv4") => Some(Family::Four),
            Some("ipv6") => Some(Family::Six),
            Some(other) => return Err(odd(format!("family={other:?}: ipv4 or ipv6"))),
        };
        Ok(How { family, ..How::to_ask(&Places::default(), self.ticket.as_deref(), self.ssh()?) })
    }

    /// For work that takes its time, with our keys and what is remembered in `state`; `events` hears notes
    /// about the way.
    pub fn to_copy(&self, state: PathBuf, events: Events) -> Result<FarMovers> {
        Ok(FarMovers::new(self.how(state, events)?))
    }

    /// The same, not begun.
    pub fn how(&self, state: PathBuf, events: Events) -> Result<How> {
        let link = self.link()?;
        let LinkSettings { patience, stall_timeout, .. } = link;
        let via = self.via.iter().map(|text| parsed("via", text, addresses::parse_via));
        let bind = self.bind.iter().map(|text| parsed("bind", text, addresses::parse_local));
        Ok(How {
            patience,
            stall_timeout,
            questions: link,
            state: Some(state),
            events,
            via: via.collect::<Result<_>>()?,
            bind: bind.collect::<Result<_>>()?,
            ..self.asking()?
        })
    }
}
