//! Accepts connections. Until a peer has proved who it is, it costs a small task and a deadline, never a
//! thread: handshakes run on an asynchronous runtime, everything after them on blocking threads.

use crate::host::Host;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::{ClientTrust, Connection, Identity, server_config};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// From accept to the end of the hello, in total.
pub const ADMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that have not proved who they are, at most; the rest wait in the kernel.
const STRANGERS_MAX: usize = 8192;

/// A server that listens.
pub struct Listening {
    /// Where, with the ports that the kernel chose.
    pub addresses: Vec<SocketAddr>,
    host: Arc<Host>,
    acceptor: TlsAcceptor,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Listens at `addresses` (`host:port`; port 0: the kernel chooses) for clients that `trust` admits.
///
/// # Errors
/// If an address cannot be had.
pub fn listen(
    host: Arc<Host>,
    identity: &Identity,
    trust: &ClientTrust,
    addresses: &[String],
) -> Result<Listening> {
    let acceptor = TlsAcceptor::from(server_config(identity, trust)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("accept")
        .build()
        .map_err(|error| failure::of_io("start", &error))?;
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    let mut bound = Vec::new();
    for address in addresses {
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(|error| {
            let mut failure = failure::of_io("listen", &error);
            failure.cause = format!("{address}: {}", failure.cause);
            failure
        })?;
        bound.push(listener.local_addr().map_err(|error| failure::of_io("listen", &error))?);
        runtime.spawn(accept_loop(listener, acceptor.clone(), host.clone(), strangers.clone()));
    }
    Ok(Listening { addresses: bound, host, acceptor, runtime: Some(runtime) })
}

impl Listening {
    /// Serves a connection that was made from here, as if it had been accepted.
    ///
    /// # Errors
    /// If the socket cannot be had.
    pub fn adopt(&self, stream: std::net::TcpStream) -> Result<()> {
        let of_io = |error: std::io::Error| failure::of_io("dial back", &error);
        stream.set_nonblocking(true).map_err(of_io)?;
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _inside = runtime.enter();
        let stream = TcpStream::from_std(stream).map_err(of_io)?;
        runtime.spawn(welcome(stream, self.acceptor.clone(), self.host.clone(), None));
        Ok(())
    }

    /// Accepts nothing more and ends all sessions in order.
    pub fn stop(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.host.stop();
    }
}

async fn accept_loop(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    host: Arc<Host>,
    strangers: Arc<Semaphore>,
) {
    loop {
        let Ok(place) = strangers.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, or a connection that died in the queue: wait a little, go on.
                tracing::warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        tokio::spawn(welcome(stream, acceptor.clone(), host.clone(), Some(place)));
    }
}

/// TLS, hello, and then to its session; `place` is free again when the peer has proved who it is.
async fn welcome(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    host: Arc<Host>,
    place: Option<tokio::sync::OwnedSemaphorePermit>,
) {
    let since = Instant::now();
    let secured = tokio::time::timeout(ADMIT_TIMEOUT, acceptor.accept(stream)).await;
    drop(place);
    let connection = match secured {
        Ok(Ok(stream)) => {
            let (socket, tls) = stream.into_inner();
            socket
                .into_std()
                .map_err(|error| failure::of_io("accept", &error))
                .and_then(|socket| Connection::from_parts(socket.into(), tls))
        }
        Ok(Err(error)) => {
            tracing::info!(%error, "a stranger was turned away");
            return;
        }
        Err(_) => Err(Failure::new(FailureKind::Connection, "accept", "the handshake took too long")),
    };
    let left = ADMIT_TIMEOUT.saturating_sub(since.elapsed());
    let admitted = tokio::task::spawn_blocking(move || connection.and_then(|c| host.admit(c, left))).await;
    match admitted {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => tracing::info!(%failure, "a connection was turned away"),
        Err(error) => tracing::error!(%error, "a connection could not be served"),
    }
}
