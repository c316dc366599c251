//! The native part of `import thalweg`: what the Python files beside it (`python/thalweg`) call. Its own names and
//! forms are no interface; those of the package are.
//!
//! Work is done on threads of its own that never hold the interpreter; Python waits for them in short steps, so that a
//! Ctrl-C is heard, stops the work in order, and leaves it resumable. What is structured travels as JSON text.
#![forbid(unsafe_code)]

use pyo3::prelude::*;
use thalweg_mover::link::STALL_TIMEOUT;
use thalweg_mover::run::client::PATIENCE;

mod failures;

mod fork_guard;

mod options;

mod waiting;

mod reaching;

mod work;

mod copy;

mod verify;

mod check;

mod flow;

mod frames;

mod session;

mod law;

mod predicting;

/// Ends what is dropped. Python drops what it owns with the interpreter's lock held; what waits here holds up no other
/// thread.
fn at_the_end(work: impl FnOnce() + Send) {
    let mut left = Some(work);
    let mut take = || left.take().into_iter().for_each(|work| work());
    // `None`: there is no interpreter any more, or it is on its way out.
    if Python::try_attach(|py| py.detach(&mut take)).is_none() {
        take();
    }
}

#[pymodule]
#[pyo3(name = "_thalweg")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PATIENCE_S", PATIENCE.as_secs_f64())?;
    module.add("STALL_TIMEOUT_S", STALL_TIMEOUT.as_secs_f64())?;
    module.add_class::<waiting::GivingUp>()?;
    module.add_class::<work::Work>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<session::Seen>()?;
    module.add_class::<frames::Sender>()?;
    module.add_class::<frames::Receiver>()?;
    module.add_class::<frames::Frame>()?;
    module.add_class::<frames::Hub>()?;
    module.add_function(wrap_pyfunction!(copy::copy, module)?)?;
    module.add_function(wrap_pyfunction!(session::exports, module)?)?;
    module.add_function(wrap_pyfunction!(verify::verify, module)?)?;
    module.add_function(wrap_pyfunction!(check::check, module)?)?;
    module.add_function(wrap_pyfunction!(verify::read_receipt, module)?)?;
    module.add_function(wrap_pyfunction!(work::limit_memory, module)?)?;
    module.add_function(wrap_pyfunction!(flow::stream, module)?)?;
    module.add_function(wrap_pyfunction!(predicting::predict, module)?)?;
    module.add_function(wrap_pyfunction!(law::law, module)?)?;
    let settle = wrap_pyfunction!(work::settle, module)?;
    module.py().import("atexit")?.call_method1("register", (settle, std::process::id()))?;
    Ok(())
}
