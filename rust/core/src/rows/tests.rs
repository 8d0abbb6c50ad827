//! Every instruction set of this machine against sums in f64.

use proptest::prelude::*;

use super::grad::{Saved, row_grad_on};
use super::simd::Isa;
use super::stats::row_stats_on;
use super::*;

const NAMES: [&str; 6] = ["log_probs", "entropy", "logsumexp", "log_sum_sq", "mean_logit", "log_one_minus_p"];

fn columns(rows: usize, listed: usize) -> Columns<Vec<f32>> {
    let column = vec![0.0; rows];
    Columns {
        log_probs: column.clone(),
        entropy: column.clone(),
        logsumexp: column.clone(),
        log_sum_sq: column.clone(),
        mean_logit: column.clone(),
        log_one_minus_p: column,
        id_log_probs: vec![0.0; rows * listed],
    }
}

impl Columns<Vec<f32>> {
    fn each(&self) -> [&[f32]; 7] {
        [
            &self.log_probs,
            &self.entropy,
            &self.logsumexp,
            &self.log_sum_sq,
            &self.mean_logit,
            &self.log_one_minus_p,
            &self.id_log_probs,
        ]
    }

    fn lent(&mut self) -> Columns<&mut [f32]> {
        Columns {
            log_probs: &mut self.log_probs,
            entropy: &mut self.entropy,
            logsumexp: &mut self.logsumexp,
            log_sum_sq: &mut self.log_sum_sq,
            mean_logit: &mut self.mean_logit,
            log_one_minus_p: &mut self.log_one_minus_p,
            id_log_probs: &mut self.id_log_probs,
        }
    }
}

fn stats<E: Logit>(isa: Isa, logits: &[&[E]], queries: Queries<'_>) -> Columns<Vec<f32>> {
    let mut out = columns(logits.len(), queries.listed);
    row_stats_on(isa, logits, queries, out.lent());
    out
}

fn grad<E: Logit>(isa: Isa, logits: &[&[E]], queries: Queries<'_>, upstream: [f32; 6], at_ids: f32) -> Vec<E> {
    let found = stats(isa, logits, queries);
    let [a, b, c, d, e, f] = upstream.map(|gradient| vec![gradient; logits.len()]);
    let ids = vec![at_ids; queries.ids.len()];
    let upstream = Columns {
        log_probs: &a[..],
        entropy: &b[..],
        logsumexp: &c[..],
        log_sum_sq: &d[..],
        mean_logit: &e[..],
        log_one_minus_p: &f[..],
        id_log_probs: &ids[..],
    };
    let saved = Saved {
        log_probs: &found.log_probs,
        entropy: &found.entropy,
        logsumexp: &found.logsumexp,
        log_sum_sq: &found.log_sum_sq,
    };
    let mut out = vec![E::default(); logits.iter().map(|row| row.len()).sum()];
    row_grad_on(isa, logits, queries, saved, &upstream, &mut out);
    out
}

/// The six statistics in f64, and a sum of them with weights as a function to be differentiated.
fn exact(z: &[f64], y: usize) -> [f64; 6] {
    let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = top + z.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
    let p: Vec<f64> = z.iter().map(|z| (z - lse).exp()).collect();
    let others: f64 = p.iter().enumerate().filter(|&(i, _)| i != y).map(|(_, p)| p).sum();
    [
        z[y] - lse,
        p.iter().map(|p| if *p > 0.0 { -p * p.ln() } else { 0.0 }).sum(),
        lse,
        p.iter().map(|p| p * p).sum::<f64>().ln(),
        z.iter().sum::<f64>() / z.len() as f64,
        others.ln(),
    ]
}

fn near(found: f64, expected: f64, what: &str) {
    let same = found == expected || (found - expected).abs() <= 4e-6 * (1.0 + expected.abs());
    assert!(same || found.is_nan() && expected.is_nan(), "{what} is {found}, expected {expected}");
}

fn rows() -> impl Strategy<Value = (Vec<f32>, usize, f32)> {
    let logit = prop_oneof![8 => -30f32..30.0, 1 => Just(f32::NEG_INFINITY), 1 => 50f32..120.0];
    (prop::collection::vec(logit, 1..300), 0f32..1.0, prop_oneof![Just(0f32), Just(1000.0)]).prop_map(
        |(row, place, offset)| {
            let y = ((place * row.len() as f32) as usize).min(row.len() - 1);
            (row.into_iter().map(|z| z + offset).collect(), y, if offset == 0.0 { 0.7 } else { 1.0 })
        },
    )
}

proptest! {
    #[test]
    fn statistics_are_those_of_f64((row, y, scale) in rows()) {
        let scaled: Vec<f64> = row.iter().map(|&z| f64::from(z) * f64::from(scale)).collect();
        prop_assume!(scaled.iter().any(|z| z.is_finite()));
        let expected = exact(&scaled, y);
        let targets = [y as i64];
        let ids = [y as i64, -1, 0];
        let queries = Queries { targets: &targets, ids: &ids, listed: 3, scale };
        for isa in Isa::available() {
            let found = stats(isa, &[&row[..]], queries);
            for ((column, expected), name) in found.each().iter().zip(expected).zip(NAMES) {
                near(f64::from(column[0]), expected, &format!("{name} on {isa:?}"));
            }
            prop_assert_eq!(found.id_log_probs[0], found.log_probs[0]);
            prop_assert_eq!(found.id_log_probs[1], f32::NEG_INFINITY);
            near(f64::from(found.id_log_probs[2]), scaled[0] - expected[2], "the first");
        }
    }

    #[test]
    fn gradients_are_finite_differences(row in prop::collection::vec(-4f32..4.0, 2..40), scale in 0.5f32..2.0) {
        let y = row.len() / 2;
        let weights = [0.7, -0.4, 0.3, 0.9, -1.3, 0.2];
        let at_ids = 0.6f32;
        let (targets, ids) = ([y as i64], [0, y as i64, -1, 0]);
        let queries = Queries { targets: &targets, ids: &ids, listed: 4, scale };
        let loss = |row: &[f64]| {
            let scaled: Vec<f64> = row.iter().map(|z| z * f64::from(scale)).collect();
            let found = exact(&scaled, y);
            let listed = 2.0 * (scaled[0] - found[2]) + found[0];
            found.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>() + f64::from(at_ids) * listed
        };
        let wide: Vec<f64> = row.iter().copied().map(f64::from).collect();
        for isa in Isa::available() {
            let found = grad(isa, &[&row[..]], queries, weights.map(|w| w as f32), at_ids);
            for i in 0..row.len() {
                let moved = |by: f64| {
                    let mut moved = wide.clone();
                    moved[i] += by;
                    loss(&moved)
                };
                let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                prop_assert!((f64::from(found[i]) - expected).abs() < 1e-5, "{isa:?} {i}: {} {expected}", found[i]);
            }
        }
    }
}

#[test]
fn a_row_that_is_no_distribution_is_nan_and_no_other() {
    let (nan, high, low) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    for isa in Isa::available() {
        for size in [1, 7, 64, 200] {
            for place in [0, size / 2, size - 1] {
                for bad in [nan, -nan, high] {
                    let mut row = vec![0.5; size];
                    row[place] = bad;
                    for y in [0, size - 1] {
                        let good = vec![0.25; size];
                        let targets = [y as i64, 0];
                        let queries = Queries { targets: &targets, ids: &[], listed: 0, scale: 1.0 };
                        let found = stats(isa, &[&row[..], &good], queries);
                        for column in &found.each()[..6] {
                            assert!(column[0].is_nan(), "{isa:?} {size} {place} {bad}");
                            assert!(!column[1].is_nan());
                        }
                        let found = grad(isa, &[&row[..], &good], queries, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.0);
                        assert!(found[..size].iter().all(|x| x.is_nan()) && !found[size..].iter().any(|x| x.is_nan()));
                        let found = grad(isa, &[&row[..], &good], queries, [0.0; 6], 0.0);
                        assert!(found.iter().all(|&x| x == 0.0));
                    }
                }
            }
            let found = stats(isa, &[&vec![low; size][..]], Queries { targets: &[0], ids: &[], listed: 0, scale: 1.0 });
            assert!(found.log_probs[0].is_nan());
        }
    }
}

#[test]
fn the_largest_and_smallest_numbers_do_not_overflow() {
    let mut row = vec![f32::MIN; 9000];
    row[8000] = 3.0;
    for isa in Isa::available() {
        let found = stats(isa, &[&row[..]], Queries { targets: &[8000], ids: &[0], listed: 1, scale: 1.0 });
        assert_eq!((found.log_probs[0], found.entropy[0], found.id_log_probs[0]), (0.0, 0.0, f32::MIN));
        assert!((found.mean_logit[0] / f32::MIN - 8999.0 / 9000.0).abs() < 1e-6);
    }
}

#[test]
fn halves_are_read_and_written_on_every_set() {
    fn tried<E: Logit + PartialEq + std::fmt::Debug>(isa: Isa) {
        let narrow: Vec<E> = (0..101).map(|i| E::narrow((i as f32 * 0.37).sin() * 9.0)).collect();
        let wide: Vec<f32> = narrow.iter().map(|z| z.widen()).collect();
        let queries = Queries { targets: &[40], ids: &[3, 40], listed: 2, scale: 0.9 };
        let (found, expected) = (stats(isa, &[&narrow[..]], queries), stats(isa, &[&wide[..]], queries));
        assert_eq!(found.each(), expected.each());
        let upstream = [1.0, 0.3, 0.1, 0.2, 0.5, 0.01];
        let expected = grad(isa, &[&wide[..]], queries, upstream, 0.5);
        assert_eq!(
            grad(isa, &[&narrow[..]], queries, upstream, 0.5),
            expected.iter().map(|&x| E::narrow(x)).collect::<Vec<_>>()
        );
    }
    for isa in Isa::available() {
        tried::<Bf16>(isa);
        tried::<F16>(isa);
    }
}

#[test]
fn bytes_do_not_depend_on_threads() {
    let rows: Vec<Vec<f32>> =
        (0..5).map(|t| (0..400_000i64).map(|i| ((i * 7919 + t * 31) % 1013) as f32 * 0.02).collect()).collect();
    let logits: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let queries = Queries { targets: &[1, 2, 3, 4, 5], ids: &[], listed: 0, scale: 1.0 };
    let mut answers = Vec::new();
    for threads in [1, 2, 3, 1] {
        crate::threads::set_num_threads(threads);
        let found = stats(Isa::best(), &logits, queries);
        let bits: Vec<u32> = found.each().iter().flat_map(|column| column.iter().map(|x| x.to_bits())).collect();
        let gradient = grad(Isa::best(), &logits, queries, [1.0, 0.1, 0.0, 0.0, 0.0, 0.0], 0.0);
        answers.push((bits, gradient.iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
    }
    crate::threads::set_num_threads(0);
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn what_is_wrong_is_named() {
    let row = [0.0f32; 3];
    let refused = |targets: &[i64], ids: &[i64], listed| {
        let mut out = columns(1, listed);
        row_stats(&[&row[..]], Queries { targets, ids, listed, scale: 1.0 }, out.lent()).unwrap_err().to_string()
    };
    assert_eq!(refused(&[3], &[], 0), "`targets` must lie in 0..3, found 3 at index 0");
    assert_eq!(refused(&[-1], &[], 0), "`targets` must lie in 0..3, found -1 at index 0");
    assert_eq!(refused(&[0], &[0, 7], 2), "`ids` must lie below 3, found 7 at index (0, 1)");
    assert_eq!(refused(&[0, 1], &[], 0), "`targets` has 2 entries, expected 1 (one per row of `logits`)");
}
