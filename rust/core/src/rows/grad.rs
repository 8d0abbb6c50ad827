//! The backward pass: gradients of all statistics folded into four numbers a row, and one sweep over it.

#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Isa, Logit, MOST_LANES, Portable, Simd, dispatched};
use super::{Columns, Queries, require_rows, rows_a_chunk};
use crate::threads::for_each;
use crate::{Error, Result};

/// From this size on a result does not stay in the caches anyway, and is written past them.
const STREAMED_BYTES: usize = 8 << 20;

/// What the forward pass found, [T] each.
#[derive(Debug, Clone, Copy)]
pub struct Saved<'a> {
    /// See [`Columns`].
    pub log_probs: &'a [f32],
    /// See [`Columns`].
    pub entropy: &'a [f32],
    /// See [`Columns`].
    pub logsumexp: &'a [f32],
    /// See [`Columns`].
    pub log_sum_sq: &'a [f32],
}

/// Writes the gradient of a loss with respect to the logits to `out` [T, V], from that with respect to each statistic.
///
/// With p the row's probabilities, `out_i = scale (p_i (c0 + c1 ln p_i + c2 p_i) + c3 + at_i)`, where `at_i` is the
/// gradient of the log-probabilities asked for at i, of target and listed ids alike. A row whose upstream gradients are
/// all 0 is written as zeros and not read; an empty slot's is not looked at.
pub fn row_grad<E: Logit>(
    logits: &[&[E]],
    queries: Queries<'_>,
    saved: Saved<'_>,
    upstream: &Columns<&[f32]>,
    out: &mut [E],
) -> Result<()> {
    queries.check(logits)?;
    let rows = logits.len();
    require_rows("log_probs", saved.log_probs.len(), rows)?;
    require_rows("entropy", saved.entropy.len(), rows)?;
    require_rows("logsumexp", saved.logsumexp.len(), rows)?;
    require_rows("log_sum_sq", saved.log_sum_sq.len(), rows)?;
    upstream.check(rows, queries.listed)?;
    let size: usize = logits.iter().map(|row| row.len()).sum();
    if out.len() != size {
        return Err(Error::length("out", out.len(), size, "one per entry of `logits`"));
    }
    row_grad_on(Isa::best(), logits, queries, saved, upstream, out);
    Ok(())
}

pub(super) fn row_grad_on<E: Logit>(
    isa: Isa,
    logits: &[&[E]],
    queries: Queries<'_>,
    saved: Saved<'_>,
    upstream: &Columns<&[f32]>,
    out: &mut [E],
) {
    let vocabulary = logits.first().map_or(0, |row| row.len());
    if vocabulary == 0 {
        return;
    }
    let streamed = size_of_val(out) >= STREAMED_BYTES;
    let size = rows_a_chunk(vocabulary);
    let mut chunks: Vec<_> = out.chunks_mut(size * vocabulary).collect();
    for_each(&mut chunks, |chunk, out| {
        let mut sparse = Vec::with_capacity(queries.listed + 1);
        for (i, out) in out.chunks_mut(vocabulary).enumerate() {
            let t = chunk * size + i;
            let row = Row::new(t, queries, saved, upstream);
            let z = logits[t];
            if row.is_zero() {
                out.fill(E::default());
                continue;
            }
            let dense = row.dense(f64::from(z[row.target].widen()), vocabulary);
            if !dense.is_number() {
                out.fill(E::narrow(f32::NAN));
                continue;
            }
            row.sparse(z, &dense, &mut sparse);
            sweep(isa, z, &dense.narrowed(), streamed, out);
            for &(id, gradient) in &sparse {
                out[id] = E::narrow(gradient as f32);
            }
        }
    });
}

/// What the backward pass knows of a row before it reads it.
struct Row<'a> {
    target: usize,
    scale: f64,
    log_prob: f64,
    entropy: f64,
    logsumexp: f64,
    log_sum_sq: f64,
    grad_log_prob: f64,
    grad_entropy: f64,
    grad_logsumexp: f64,
    grad_log_sum_sq: f64,
    grad_mean_logit: f64,
    grad_log_one_minus_p: f64,
    ids: &'a [i64],
    grad_ids: &'a [f32],
}

/// Gradient of entry i but for what is asked at i itself: `scale (p (c0 + c1 ln p + c2 p) + c3)`.
struct Dense {
    scale: f64,
    logsumexp: f64,
    c0: f64,
    c1: f64,
    c2: f64,
    c3: f64,
    /// Gradient at the target, where all of it is known.
    at_target: f64,
}

/// [`Dense`] in f32: the scale is multiplied in, and the log of the sum is a number and what rounding took from it.
struct Sweep {
    scale: f32,
    logsumexp: f32,
    remainder: f32,
    c: [f32; 4],
}

impl<'a> Row<'a> {
    fn new(t: usize, queries: Queries<'a>, saved: Saved<'_>, upstream: &Columns<&'a [f32]>) -> Self {
        Self {
            target: queries.targets[t] as usize,
            scale: f64::from(queries.scale),
            log_prob: f64::from(saved.log_probs[t]),
            entropy: f64::from(saved.entropy[t]),
            logsumexp: f64::from(saved.logsumexp[t]),
            log_sum_sq: f64::from(saved.log_sum_sq[t]),
            grad_log_prob: f64::from(upstream.log_probs[t]),
            grad_entropy: f64::from(upstream.entropy[t]),
            grad_logsumexp: f64::from(upstream.logsumexp[t]),
            grad_log_sum_sq: f64::from(upstream.log_sum_sq[t]),
            grad_mean_logit: f64::from(upstream.mean_logit[t]),
            grad_log_one_minus_p: f64::from(upstream.log_one_minus_p[t]),
            ids: &queries.ids[t * queries.listed..(t + 1) * queries.listed],
            grad_ids: &upstream.id_log_probs[t * queries.listed..(t + 1) * queries.listed],
        }
    }

    /// Ids and their gradients, empty slots left out.
    fn listed(&self) -> impl Iterator<Item = (usize, f64)> {
        let slots = self.ids.iter().zip(self.grad_ids);
        slots.filter_map(|(&id, &gradient)| usize::try_from(id).ok().map(|id| (id, f64::from(gradient))))
    }

    fn is_zero(&self) -> bool {
        let of_row = [
            self.grad_log_prob,
            self.grad_entropy,
            self.grad_logsumexp,
            self.grad_log_sum_sq,
            self.grad_mean_logit,
            self.grad_log_one_minus_p,
        ];
        of_row.iter().all(|&gradient| gradient == 0.0) && self.listed().all(|(_, gradient)| gradient == 0.0)
    }

    /// `logit` is the target's.
    fn dense(&self, logit: f64, vocabulary: usize) -> Dense {
        let (p, rest) = (self.log_prob.exp(), -self.log_prob.exp_m1());
        let mut at_target = self.grad_log_prob;
        if self.grad_log_one_minus_p != 0.0 {
            at_target -= self.grad_log_one_minus_p * p / rest;
        }
        let mut elsewhere = 0.0;
        for (id, gradient) in self.listed() {
            *(if id == self.target { &mut at_target } else { &mut elsewhere }) += gradient;
        }
        let c1 = -self.grad_entropy;
        let c2 = if self.grad_log_sum_sq == 0.0 { 0.0 } else { 2.0 * self.grad_log_sum_sq * (-self.log_sum_sq).exp() };
        let c3 = self.grad_mean_logit / vocabulary as f64;
        let shared = self.grad_logsumexp - elsewhere - self.grad_entropy * self.entropy - 2.0 * self.grad_log_sum_sq;
        // 1 - p to its last digit, where the target is all but certain.
        let own = if p > 0.0 { p * (shared + c1 * self.log_prob + c2 * p) } else { 0.0 };
        // The target's logit and log-probability say it more exactly than the rounded f32.
        let logsumexp = if self.log_prob.is_finite() { logit * self.scale - self.log_prob } else { self.logsumexp };
        let scale = self.scale;
        Dense { scale, logsumexp, c0: shared - at_target, c1, c2, c3, at_target: scale * (at_target * rest + own + c3) }
    }

    /// The gradients of entries that are asked for by id, each of them whole.
    fn sparse<E: Logit>(&self, z: &[E], dense: &Dense, entries: &mut Vec<(usize, f64)>) {
        entries.clear();
        entries.push((self.target, dense.at_target));
        for (id, _) in self.listed().filter(|&(id, _)| id != self.target) {
            let asked: f64 = self.listed().filter(|&(other, _)| other == id).map(|(_, gradient)| gradient).sum();
            entries.push((id, dense.at(f64::from(z[id].widen())) + self.scale * asked));
        }
    }
}

impl Dense {
    fn is_number(&self) -> bool {
        ![self.logsumexp, self.c0, self.c1, self.c2, self.c3, self.at_target].iter().any(|x| x.is_nan())
    }

    fn at(&self, logit: f64) -> f64 {
        let log_p = logit * self.scale - self.logsumexp;
        let p = log_p.exp();
        let own = if p > 0.0 { p * (self.c0 + self.c1 * log_p + self.c2 * p) } else { 0.0 };
        self.scale * (own + self.c3)
    }

    fn narrowed(&self) -> Sweep {
        let logsumexp = self.logsumexp as f32;
        Sweep {
            scale: self.scale as f32,
            logsumexp,
            remainder: (self.logsumexp - f64::from(logsumexp)) as f32,
            c: [self.c0, self.c1, self.c2, self.c3].map(|c| (c * self.scale) as f32),
        }
    }
}

dispatched! {
    /// Writes the dense part of a row's gradient; past the caches where `streamed` and the row lies for it.
    fn sweep(z: &[E], sweep: &Sweep, streamed: bool, out: &mut [E]) = sweep_kernel
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn sweep_kernel<S: Simd, E: Logit>(z: &[E], sweep: &Sweep, streamed: bool, out: &mut [E]) {
    let aligned = out.as_ptr().addr().is_multiple_of(S::N * size_of::<E>());
    // SAFETY: as said above.
    unsafe {
        if streamed && aligned {
            sweep_whole::<S, E, true>(z, sweep, out);
            S::fence();
        } else {
            sweep_whole::<S, E, false>(z, sweep, out);
        }
    }
}

/// # Safety
/// As of [`Simd`]; where `STREAM`, `out` is aligned to a vector, and a fence follows.
#[inline(always)]
unsafe fn sweep_whole<S: Simd, E: Logit, const STREAM: bool>(z: &[E], sweep: &Sweep, out: &mut [E]) {
    let (mut from, mut to) = (z.chunks_exact(S::N), out.chunks_exact_mut(S::N));
    // SAFETY: as said above; a chunk holds a vector, and so do the arrays.
    unsafe {
        for (from, to) in from.by_ref().zip(to.by_ref()) {
            E::store::<S, STREAM>(to.as_mut_ptr(), gradients::<S>(E::load::<S>(from.as_ptr()), sweep));
        }
        let (from, to) = (from.remainder(), to.into_remainder());
        let mut ragged = [E::default(); MOST_LANES];
        ragged[..from.len()].copy_from_slice(from);
        let whole = gradients::<S>(E::load::<S>(ragged.as_ptr()), sweep);
        E::store::<S, false>(ragged.as_mut_ptr(), whole);
        to.copy_from_slice(&ragged[..to.len()]);
    }
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn gradients<S: Simd>(z: S::V, sweep: &Sweep) -> S::V {
    let [c0, c1, c2, c3] = sweep.c;
    // SAFETY: as said above.
    unsafe {
        let log_p = S::add(S::fma(z, S::splat(sweep.scale), S::splat(-sweep.logsumexp)), S::splat(-sweep.remainder));
        let log_p = S::max(log_p, S::splat(S::LOW));
        let p = S::exp(log_p);
        let slope = S::fma(S::splat(c2), p, S::fma(S::splat(c1), log_p, S::splat(c0)));
        S::fma(p, slope, S::splat(c3))
    }
}
