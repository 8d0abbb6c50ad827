//! `tallystick._native`: views in, arrays out, errors mapped. It computes nothing.
#![allow(missing_docs, reason = "users read the Python faces; the signatures stand in `_native.pyi`")]
#![allow(clippy::needless_pass_by_value, reason = "what PyO3 extracts for a call is owned by it")]

mod canonical;
mod columns;
mod errors;
mod groups;
mod ragged;
mod random;
mod rows;
mod states;
mod strings;

use pyo3::prelude::*;

/// Names of the instruction sets that faster paths may choose on this machine.
#[pyfunction]
fn cpu_features() -> Vec<&'static str> {
    tallystick_core::cpu::features()
}

/// Number of threads that a parallel call may use.
#[pyfunction]
fn num_threads() -> usize {
    tallystick_core::threads::num_threads()
}

/// Sets the number of threads that a parallel call may use; 0 restores the default.
#[pyfunction]
fn set_num_threads(n: usize) {
    tallystick_core::threads::set_num_threads(n);
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(cpu_features, m)?)?;
    m.add_function(wrap_pyfunction!(num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(set_num_threads, m)?)?;
    groups::register(m)?;
    ragged::register(m)?;
    random::register(m)?;
    rows::register(m)?;
    states::register(m)?;
    // PyO3 lists every name here; the module is private, and its stub says what it holds.
    m.delattr("__all__")
}
