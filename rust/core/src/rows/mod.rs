//! Rows of logits [T, V]: statistics of each row against its target token, in one pass, and their gradient in another.
//!
//! One row is read once. What it gives is a [`State`], sums relative to a running reference, from which all statistics
//! follow; the target stands outside the sums, so that its log-probability keeps its digits where it is all but certain.
//! A row is reduced in an order that depends on V and the instruction set alone: same bytes on any number of threads
//! and each time, but not on a processor with other instruction sets.
#![allow(clippy::inline_always, reason = "a kernel that is not inlined is compiled for the baseline")]

mod grad;
mod simd;
mod stats;

pub use grad::{Saved, row_grad};
pub use simd::{Bf16, F16, Logit};
pub use stats::{State, row_stats};

use crate::{Error, Result};

/// Logits that a thread takes at a time, in whole rows.
const CHUNK: usize = 1 << 20;

/// One column for each statistic, [T] each and [T, K] for the last.
#[derive(Debug, Default, Clone)]
pub struct Columns<C> {
    /// Of the target.
    pub log_probs: C,
    /// In nats.
    pub entropy: C,
    /// Log of the sum of the exponentials of all logits.
    pub logsumexp: C,
    /// Log of the sum of the squared probabilities.
    pub log_sum_sq: C,
    /// Mean of the logits.
    pub mean_logit: C,
    /// Of the target: log of all other probability.
    pub log_one_minus_p: C,
    /// Of the listed ids of each row, one row after another.
    pub id_log_probs: C,
}

impl<C: AsRef<[f32]>> Columns<C> {
    /// Refuses columns of other lengths than said above.
    fn check(&self, rows: usize, listed: usize) -> Result<()> {
        let of_rows = [
            ("log_probs", &self.log_probs),
            ("entropy", &self.entropy),
            ("logsumexp", &self.logsumexp),
            ("log_sum_sq", &self.log_sum_sq),
            ("mean_logit", &self.mean_logit),
            ("log_one_minus_p", &self.log_one_minus_p),
        ];
        for (name, column) in of_rows {
            require_rows(name, column.as_ref().len(), rows)?;
        }
        let found = self.id_log_probs.as_ref().len();
        if found != rows * listed {
            return Err(Error::length("id_log_probs", found, rows * listed, "one per entry of `ids`"));
        }
        Ok(())
    }
}

/// Refuses a column that is not `rows` long.
fn require_rows(name: &str, found: usize, rows: usize) -> Result<()> {
    if found == rows { Ok(()) } else { Err(Error::length(name, found, rows, "one per row of `logits`")) }
}

/// Which logits a row is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    /// One id a row, in `0..V`.
    pub targets: &'a [i64],
    /// `listed` ids a row, one row after another; below 0 where a slot is empty.
    pub ids: &'a [i64],
    /// Number K of ids that each row lists.
    pub listed: usize,
    /// What logits are multiplied by: 1 / temperature.
    pub scale: f32,
}

impl Queries<'_> {
    fn ids_of(&self, row: usize) -> &[i64] {
        &self.ids[row * self.listed..(row + 1) * self.listed]
    }

    /// Refuses columns that do not fit `rows`, and ids that are not of the vocabulary.
    fn check<E>(&self, logits: &[&[E]]) -> Result<()> {
        let rows = logits.len();
        let vocabulary = logits.first().map_or(0, |row| row.len());
        if let Some(row) = logits.iter().position(|row| row.len() != vocabulary) {
            let reason = format!("has {} entries in row {row}, expected {vocabulary}", logits[row].len());
            return Err(Error::Shape { argument: "logits".to_owned(), index: Some(row), reason });
        }
        require_rows("targets", self.targets.len(), rows)?;
        if self.ids.len() != rows * self.listed {
            return Err(Error::length("ids", self.ids.len(), rows * self.listed, "K per row of `logits`"));
        }
        let beyond = |id: i64| usize::try_from(id).map_or(true, |id| id >= vocabulary);
        if let Some(row) = self.targets.iter().position(|&id| beyond(id)) {
            let reason = format!("must lie in 0..{vocabulary}, found {} at index {row}", self.targets[row]);
            return Err(Error::unsupported("targets", Some(row), reason));
        }
        if let Some(place) = self.ids.iter().position(|&id| id >= 0 && beyond(id)) {
            let (row, slot) = (place / self.listed, place % self.listed);
            let found = self.ids[place];
            let reason = format!("must lie below {vocabulary}, found {found} at index ({row}, {slot})");
            return Err(Error::unsupported("ids", Some(row), reason));
        }
        Ok(())
    }
}

/// Number of rows of a chunk.
fn rows_a_chunk(vocabulary: usize) -> usize {
    (CHUNK / vocabulary.max(1)).max(1)
}

#[cfg(test)]
mod tests;
