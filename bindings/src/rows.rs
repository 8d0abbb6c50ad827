//! `rows`: statistics of logit rows and their gradient.

use numpy::ndarray::ArrayView2;
use numpy::{PyReadonlyArray2, PyReadwriteArray1};
use pyo3::prelude::*;
use tallystick_core::rows::{self, Bf16, Columns, F16, Queries, Saved};
use tallystick_core::{Error, Result};

use crate::columns::{Column, array};
use crate::errors::{detached, to_python};

/// Logits [T, V]: numbers, or the bits of numbers of half the size.
#[derive(FromPyObject)]
enum Logits<'py> {
    F32(PyReadonlyArray2<'py, f32>),
    Half(PyReadonlyArray2<'py, u16>),
}

/// Room for the gradient, [T * V].
#[derive(FromPyObject)]
enum Gradient<'py> {
    F32(PyReadwriteArray1<'py, f32>),
    Half(PyReadwriteArray1<'py, u16>),
}

/// The rows of a matrix, each in one piece; they may lie apart.
fn pieces<'a, T>(matrix: &'a ArrayView2<'_, T>) -> Result<Vec<&'a [T]>> {
    let laid_out = |(index, row): (usize, numpy::ndarray::ArrayView1<'a, T>)| {
        row.to_slice().ok_or_else(|| Error::Shape {
            argument: "logits".to_owned(),
            index: Some(index),
            reason: "must have rows that lie in one piece".to_owned(),
        })
    };
    matrix.outer_iter().enumerate().map(laid_out).collect()
}

fn dtype(argument: &str, kind: &str) -> Error {
    Error::DType { argument: argument.to_owned(), index: None, reason: format!("does not fit the dtype {kind}") }
}

#[pyfunction]
fn row_stats<'py>(
    py: Python<'py>,
    logits: Logits<'py>,
    kind: &str,
    targets: Column<'py, i64>,
    ids: Column<'py, i64>,
    listed: usize,
    scale: f32,
) -> PyResult<[Bound<'py, PyAny>; 7]> {
    let queries = Queries { targets: targets.as_slice()?, ids: ids.as_slice()?, listed, scale };
    let rows = queries.targets.len();
    let column = || vec![0.0f32; rows];
    let mut found = [column(), column(), column(), column(), column(), column(), vec![0.0; queries.ids.len()]];
    let [log_probs, entropy, logsumexp, log_sum_sq, mean_logit, log_one_minus_p, id_log_probs] = &mut found;
    let out = Columns {
        log_probs: &mut log_probs[..],
        entropy,
        logsumexp,
        log_sum_sq,
        mean_logit,
        log_one_minus_p,
        id_log_probs,
    };
    match (&logits, kind) {
        (Logits::F32(logits), "float32") => {
            let view = logits.as_array();
            detached(py, || rows::row_stats(&pieces(&view)?, queries, out))
        }
        (Logits::Half(logits), "bfloat16") => {
            let view = logits.as_array();
            detached(py, || {
                rows::row_stats(&pieces(&view)?.into_iter().map(Bf16::of).collect::<Vec<_>>(), queries, out)
            })
        }
        (Logits::Half(logits), "float16") => {
            let view = logits.as_array();
            detached(py, || rows::row_stats(&pieces(&view)?.into_iter().map(F16::of).collect::<Vec<_>>(), queries, out))
        }
        _ => Err(to_python(py, &dtype("logits", kind))),
    }?;
    Ok(found.map(|column| array(py, column)))
}

#[pyfunction]
fn row_grad<'py>(
    py: Python<'py>,
    logits: Logits<'py>,
    kind: &str,
    targets: Column<'py, i64>,
    ids: Column<'py, i64>,
    listed: usize,
    scale: f32,
    saved: [Column<'py, f32>; 4],
    upstream: [Column<'py, f32>; 7],
    out: Gradient<'py>,
) -> PyResult<()> {
    let queries = Queries { targets: targets.as_slice()?, ids: ids.as_slice()?, listed, scale };
    let saved = Saved {
        log_probs: saved[0].as_slice()?,
        entropy: saved[1].as_slice()?,
        logsumexp: saved[2].as_slice()?,
        log_sum_sq: saved[3].as_slice()?,
    };
    let upstream = Columns {
        log_probs: upstream[0].as_slice()?,
        entropy: upstream[1].as_slice()?,
        logsumexp: upstream[2].as_slice()?,
        log_sum_sq: upstream[3].as_slice()?,
        mean_logit: upstream[4].as_slice()?,
        log_one_minus_p: upstream[5].as_slice()?,
        id_log_probs: upstream[6].as_slice()?,
    };
    match (&logits, out, kind) {
        (Logits::F32(logits), Gradient::F32(mut out), "float32") => {
            let (view, out) = (logits.as_array(), out.as_slice_mut()?);
            detached(py, || rows::row_grad(&pieces(&view)?, queries, saved, &upstream, out))
        }
        (Logits::Half(logits), Gradient::Half(mut out), "bfloat16") => {
            let (view, out) = (logits.as_array(), Bf16::of_mut(out.as_slice_mut()?));
            detached(py, || {
                let logits: Vec<_> = pieces(&view)?.into_iter().map(Bf16::of).collect();
                rows::row_grad(&logits, queries, saved, &upstream, out)
            })
        }
        (Logits::Half(logits), Gradient::Half(mut out), "float16") => {
            let (view, out) = (logits.as_array(), F16::of_mut(out.as_slice_mut()?));
            detached(py, || {
                let logits: Vec<_> = pieces(&view)?.into_iter().map(F16::of).collect();
                rows::row_grad(&logits, queries, saved, &upstream, out)
            })
        }
        _ => Err(to_python(py, &dtype("out", kind))),
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(row_stats, m)?)?;
    m.add_function(wrap_pyfunction!(row_grad, m)?)?;
    Ok(())
}
