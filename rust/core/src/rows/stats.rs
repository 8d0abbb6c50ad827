//! The forward pass: a row folded into sums, and what the sums say.

#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Isa, Logit, MOST_LANES, Portable, Simd, dispatched};
use super::{Columns, Queries, rows_a_chunk};
use crate::Result;
use crate::threads::for_each;

/// How far an entry may exceed the reference before the sums are moved: `e^24`, squared and summed over a row, is far
/// from the largest f32.
const RISE: f32 = 24.0;
/// Vectors that are looked at for a rise at a time.
const UNROLL: usize = 4;
/// Most entries of such a block.
const BLOCK: usize = UNROLL * MOST_LANES;
/// Entries whose sums are held in lanes of f32; then they join the f64.
const TILE: usize = 4096;
/// Logits are added times this, a power of two, so that a tile of the largest f32 does not overflow.
const SHRINK: f32 = 1.0 / 1024.0;

/// Sums over the entries z of a row, in part or whole, relative to a reference r.
#[derive(Debug, Clone, Copy)]
pub struct State {
    /// r: an entry of the row, or the smallest f32 where there was none but the target.
    pub reference: f32,
    /// Sum of `exp(z - r)`, the target left out.
    pub sum: f64,
    /// Sum of `exp(z - r) (z - r)`, the target left out.
    pub weighted: f64,
    /// Sum of `exp(2 (z - r))`, the target left out.
    pub squares: f64,
    /// Sum of the logits before they were scaled, of all; NaN or `inf` where one is.
    pub total: f64,
}

impl State {
    /// Of no entries.
    pub const EMPTY: Self = Self { reference: f32::MIN, sum: 0.0, weighted: 0.0, squares: 0.0, total: 0.0 };

    /// The same sums relative to a higher reference.
    fn rise(&mut self, reference: f32) {
        let step = f64::from(self.reference) - f64::from(reference);
        let factor = step.exp();
        self.weighted = factor * (self.weighted + self.sum * step);
        self.sum *= factor;
        self.squares *= factor * factor;
        self.reference = reference;
    }
}

/// Statistics of one row; see [`Columns`].
struct Statistics {
    log_prob: f64,
    entropy: f64,
    logsumexp: f64,
    log_sum_sq: f64,
    mean_logit: f64,
    log_one_minus_p: f64,
}

impl Statistics {
    /// From the sums over a row of `size` entries and its target's logit, scaled.
    fn of(state: &State, target: f64, scale: f32, size: usize) -> Self {
        let State { sum, weighted, squares, total, .. } = *state;
        let spread = sum.ln();
        let others = f64::from(state.reference) + spread;
        // What the others weigh against the target, in log space. Of `inf` to `-inf`, none of them lost to rounding.
        let odds = others - target;
        let logsumexp = others.max(target) + (-odds.abs()).exp().ln_1p();
        // Also where no entry was finite, or one is too large once scaled.
        if !(total < f64::INFINITY && logsumexp <= f64::from(f32::MAX)) {
            let nan = f64::NAN;
            return Self {
                log_prob: nan,
                entropy: nan,
                logsumexp: nan,
                log_sum_sq: nan,
                mean_logit: nan,
                log_one_minus_p: nan,
            };
        }
        let (log_prob, log_one_minus_p) = (-softplus(odds), -softplus(-odds));
        let (p, rest) = (log_prob.exp(), log_one_minus_p.exp());
        let (mut entropy, mut sum_sq) = (share(p, log_prob) + share(rest, log_one_minus_p), p * p);
        if sum > 0.0 {
            entropy += rest * (spread - weighted / sum);
            sum_sq += rest * rest * (squares / (sum * sum));
        }
        Self {
            log_prob,
            entropy: entropy.max(0.0),
            logsumexp,
            log_sum_sq: sum_sq.ln(),
            mean_logit: total * f64::from(scale) / size as f64,
            log_one_minus_p,
        }
    }
}

/// `ln(1 + exp(x))`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `-p ln p`, 0 where p is.
fn share(p: f64, log_p: f64) -> f64 {
    if p > 0.0 { -p * log_p } else { 0.0 }
}

impl Columns<&mut [f32]> {
    /// The first `rows` rows, which are taken off.
    fn front(&mut self, rows: usize, listed: usize) -> Self {
        Self {
            log_probs: self.log_probs.split_off_mut(..rows).unwrap_or_default(),
            entropy: self.entropy.split_off_mut(..rows).unwrap_or_default(),
            logsumexp: self.logsumexp.split_off_mut(..rows).unwrap_or_default(),
            log_sum_sq: self.log_sum_sq.split_off_mut(..rows).unwrap_or_default(),
            mean_logit: self.mean_logit.split_off_mut(..rows).unwrap_or_default(),
            log_one_minus_p: self.log_one_minus_p.split_off_mut(..rows).unwrap_or_default(),
            id_log_probs: self.id_log_probs.split_off_mut(..rows * listed).unwrap_or_default(),
        }
    }
}

/// Writes the statistics of each row of `logits` to `out`, whose columns are as long as [`Columns`] says.
///
/// `-inf` is probability 0. A row with NaN, with `inf` or without a finite entry gives NaN throughout.
pub fn row_stats<E: Logit>(logits: &[&[E]], queries: Queries<'_>, out: Columns<&mut [f32]>) -> Result<()> {
    queries.check(logits)?;
    out.check(logits.len(), queries.listed)?;
    row_stats_on(Isa::best(), logits, queries, out);
    Ok(())
}

pub(super) fn row_stats_on<E: Logit>(isa: Isa, logits: &[&[E]], queries: Queries<'_>, mut out: Columns<&mut [f32]>) {
    let size = rows_a_chunk(logits.first().map_or(0, |row| row.len()));
    let mut chunks: Vec<_> = logits.chunks(size).map(|rows| (rows, out.front(rows.len(), queries.listed))).collect();
    for_each(&mut chunks, |chunk, (rows, out)| {
        for (i, row) in rows.iter().enumerate() {
            let t = chunk * size + i;
            let (scale, y) = (queries.scale, queries.targets[t] as usize);
            let scaled = |id: usize| f64::from(row[id].widen()) * f64::from(scale);
            let found = Statistics::of(&fold(isa, row, y, scale), scaled(y), scale, row.len());
            out.log_probs[i] = found.log_prob as f32;
            out.entropy[i] = found.entropy as f32;
            out.logsumexp[i] = found.logsumexp as f32;
            out.log_sum_sq[i] = found.log_sum_sq as f32;
            out.mean_logit[i] = found.mean_logit as f32;
            out.log_one_minus_p[i] = found.log_one_minus_p as f32;
            for (slot, &id) in queries.ids_of(t).iter().enumerate() {
                out.id_log_probs[i * queries.listed + slot] = match usize::try_from(id) {
                    Ok(id) if id == y => found.log_prob as f32,
                    Ok(id) => (scaled(id) - found.logsumexp) as f32,
                    Err(_) => f32::NEG_INFINITY,
                };
            }
        }
    });
}

dispatched! {
    /// The sums over a row.
    fn fold(row: &[E], target: usize, scale: f32) -> State = fold_kernel
}

/// Sums over a tile, one for each lane.
struct Lanes<S: Simd> {
    sum: S::V,
    weighted: S::V,
    squares: S::V,
    total: S::V,
}

impl<S: Simd> Lanes<S> {
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as said above.
        let zero = unsafe { S::splat(0.0) };
        Self { sum: zero, weighted: zero, squares: zero, total: zero }
    }

    /// Adds the lanes to the sums of the row, in a fixed order, and starts again from 0.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn join(&mut self, state: &mut State) {
        // SAFETY: as said above.
        unsafe {
            state.sum += across::<S>(self.sum);
            state.weighted += across::<S>(self.weighted);
            state.squares += across::<S>(self.squares);
            state.total += across::<S>(self.total) / f64::from(SHRINK);
            *self = Self::zero();
        }
    }
}

/// The sum over the lanes.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn across<S: Simd>(v: S::V) -> f64 {
    // SAFETY: as said above.
    unsafe { S::lanes(v).into_iter().map(f64::from).sum() }
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn fold_kernel<S: Simd, E: Logit>(row: &[E], target: usize, scale: f32) -> State {
    let mut state = State::EMPTY;
    let width = UNROLL * S::N;
    // SAFETY: as said above; a block that is loaded whole holds `width` entries, and `Edge` does.
    unsafe {
        let mut lanes = Lanes::<S>::zero();
        for (t, tile) in row.chunks(TILE).enumerate() {
            for (b, block) in tile.chunks(width).enumerate() {
                // Wraps to something large where the target stands before the block.
                let place = target.wrapping_sub(t * TILE + b * width);
                if block.len() < width || place < width {
                    let edge = Edge::of(block, place);
                    step::<S>(
                        &mut state,
                        &mut lanes,
                        load::<S, f32>(&edge.summed),
                        load::<S, f32>(&edge.counted),
                        scale,
                    );
                } else {
                    let z = load::<S, E>(block);
                    step::<S>(&mut state, &mut lanes, z, z, scale);
                }
            }
            lanes.join(&mut state);
        }
    }
    state
}

/// A block that is not whole, or that holds the target.
struct Edge {
    /// The entries, `-inf` in place of the target and of those that are missing.
    summed: [f32; BLOCK],
    /// The entries, 0 in place of those that are missing.
    counted: [f32; BLOCK],
}

impl Edge {
    #[cold]
    fn of<E: Logit>(block: &[E], target: usize) -> Self {
        let mut edge = Self { summed: [f32::NEG_INFINITY; BLOCK], counted: [0.0; BLOCK] };
        for (i, z) in block.iter().enumerate() {
            edge.counted[i] = z.widen();
            if i != target {
                edge.summed[i] = edge.counted[i];
            }
        }
        edge
    }
}

/// # Safety
/// As of [`Simd`], and `block` holds `UNROLL` vectors.
#[inline(always)]
unsafe fn load<S: Simd, E: Logit>(block: &[E]) -> [S::V; UNROLL] {
    let from = block.as_ptr();
    // SAFETY: as said above.
    unsafe {
        [
            E::load::<S>(from),
            E::load::<S>(from.add(S::N)),
            E::load::<S>(from.add(2 * S::N)),
            E::load::<S>(from.add(3 * S::N)),
        ]
    }
}

/// Adds a block; `summed` goes to the exponentials, `counted` to the total.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn step<S: Simd>(
    state: &mut State,
    lanes: &mut Lanes<S>,
    summed: [S::V; UNROLL],
    counted: [S::V; UNROLL],
    scale: f32,
) {
    // SAFETY: as said above.
    unsafe {
        let mut d = distances::<S>(&summed, scale, state.reference);
        if S::any_above(highest::<S>(&d), S::splat(RISE)) {
            lanes.join(state);
            let top = S::lanes(highest::<S>(&summed)).into_iter().take(S::N).fold(f32::MIN, f32::max);
            state.rise(top * scale);
            d = distances::<S>(&summed, scale, state.reference);
        }
        for k in 0..UNROLL {
            // The order of operands also takes a NaN to the limit; `total` keeps it.
            let d = S::max(d[k], S::splat(S::LOW));
            let e = S::exp(d);
            lanes.sum = S::add(lanes.sum, e);
            lanes.weighted = S::fma(e, d, lanes.weighted);
            lanes.squares = S::fma(e, e, lanes.squares);
            lanes.total = S::fma(counted[k], S::splat(SHRINK), lanes.total);
        }
    }
}

/// `z * scale - reference`.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn distances<S: Simd>(z: &[S::V; UNROLL], scale: f32, reference: f32) -> [S::V; UNROLL] {
    // SAFETY: as said above.
    unsafe {
        let (scale, back) = (S::splat(scale), S::splat(-reference));
        [S::fma(z[0], scale, back), S::fma(z[1], scale, back), S::fma(z[2], scale, back), S::fma(z[3], scale, back)]
    }
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn highest<S: Simd>(v: &[S::V; UNROLL]) -> S::V {
    // SAFETY: as said above.
    unsafe { S::max(S::max(v[0], v[1]), S::max(v[2], v[3])) }
}
