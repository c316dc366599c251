//! `thalweg serve`.

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::identity;
use std::sync::mpsc;
use std::time::Duration;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::{ClientTrust, Identity, Ticket};
use thalweg_service::accept;
use thalweg_service::export::Exports;
use thalweg_service::host::{Host, HostLimits};

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot begin.
pub fn serve(args: &ServeArgs) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let exports = args.export.iter().map(|text| text.parse()).collect::<Result<Vec<_>>>()?;
    let exports = Exports::open(exports)?;
    let own = Identity::load_or_create(&state.join("server.pem"), "thalweg server")?;
    let client = Identity::load_or_create(&state.join("client.pem"), "thalweg client")?;
    let trust = ClientTrust::default();
    trust.pinned.insert(client.fingerprint());
    let limits = HostLimits {
        patience: args.patience,
        stall_timeout: args.stall_timeout,
        channel_bytes_max: args.frames_memory,
        tls_form: args.tls.form(),
        ..HostLimits::default()
    };
    let fingerprint = own.fingerprint();
    let host = Host::new(reload(&own)?, exports, Some(state.clone()), limits);
    let listening = accept::listen(host, &own, &trust, &args.listen)?;
    let addresses: Vec<String> = match args.advertise.is_empty() {
        true => listening.addresses.iter().map(ToString::to_string).collect(),
        false => args.advertise.clone(),
    };
    if let Some(path) = &args.ticket_file {
        let ticket =
            Ticket { addresses: addresses.clone(), server: fingerprint, identity_pem: client.to_pem() };
        ticket.write(path)?;
    }
    println!("listening at {}, fingerprint {fingerprint}", addresses.join(", "));
    wait_for_signal()?;
    listening.stop();
    Ok(Exit::Done)
}

/// The host keeps its own copy of the key, for receipts.
fn reload(identity: &Identity) -> Result<Identity> {
    Identity::from_pem(&identity.to_pem())
}

fn wait_for_signal() -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| failure::of_io("listen for signals", &error))?;
    let (told, hears) = mpsc::channel();
    std::thread::spawn(move || {
        let mut first = true;
        for signal in signals.forever() {
            if !first {
                std::process::exit(128 + signal);
            }
            first = false;
            let _ = told.send(());
        }
    });
    loop {
        match hears.recv_timeout(Duration::from_secs(3600)) {
            Ok(()) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(FailureKind::Internal, "serve", "the signal thread ended"));
            }
        }
    }
}
