//! Centring and scaling inside groups.

use std::cell::RefCell;
use std::ops::Range;

use super::partition::Partition;
use super::trim;
use crate::ragged::{Real, check_finite, check_length};
use crate::{Error, Result};

/// What is subtracted.
#[derive(Debug, Clone, Copy)]
pub enum Center<'a> {
    /// The mean of the group.
    Mean,
    /// The mean of the group's other units.
    LeaveOneOut,
    /// The mean of the group's rows under these weights.
    Weighted(&'a [f64]),
    /// Nothing.
    Zero,
    /// One number a row.
    Given(&'a [f64]),
}

/// What is divided by, after `eps` was added.
#[derive(Debug, Clone, Copy)]
pub enum Scale<'a> {
    /// The standard deviation of the group, about its mean.
    Std,
    /// The standard deviation of all that counts, about its mean.
    BatchStd,
    /// Nothing, not even `eps`.
    One,
    /// One number a row.
    Given(&'a [f64]),
}

/// What a group of one unit gets, where a statistic of the group is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Singleton {
    /// 0.
    Zero,
    /// 0 for a statistic that is subtracted, 1 for one that is divided by.
    Raw,
    /// 0, and no part in the batch's standard deviation.
    Skip,
}

/// What a scale of exactly 0 does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroVariance {
    /// The result is 0.
    Zero,
    /// The difference is divided by `eps`.
    Divide,
}

/// The switches of [`group_normalize`].
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// What is subtracted.
    pub center: Center<'a>,
    /// What is divided by.
    pub scale: Scale<'a>,
    /// Standard deviations divide by the number of units minus this, 0 or 1.
    pub ddof: usize,
    /// Added to the scale.
    pub eps: f64,
    /// The rule for a group of one unit.
    pub singleton: Singleton,
    /// The rule for a scale of 0.
    pub zero_variance: ZeroVariance,
}

impl Rules<'_> {
    fn use_group_statistics(&self) -> bool {
        matches!(self.center, Center::Mean | Center::LeaveOneOut | Center::Weighted(_))
            || matches!(self.scale, Scale::Std)
    }

    /// Whether a rule reads one number a row.
    fn have_columns(&self) -> bool {
        matches!(self.center, Center::Weighted(_) | Center::Given(_)) || matches!(self.scale, Scale::Given(_))
    }

    fn scaled(&self, difference: f64, scale: f64) -> f64 {
        if scale == 0.0 && self.zero_variance == ZeroVariance::Zero { 0.0 } else { difference / (scale + self.eps) }
    }
}

/// The columns of [`group_normalize`], all of one length.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a, T> {
    /// What is normalised.
    pub x: &'a [T],
    /// The group of each row, any integers.
    pub groups: &'a [i64],
    /// What counts once inside its group, any integers; each row by itself where absent.
    pub units: Option<&'a [i64]>,
    /// True on live rows.
    pub mask: Option<&'a [bool]>,
}

/// Buffers that are kept between calls: after a program has freed many small objects, the allocator takes
/// milliseconds to find a large block. What a rare large call needed is given back.
#[derive(Default)]
struct Scratch {
    partition: Partition,
    rows: Vec<u32>,
    units: Vec<(i64, u32)>,
}

impl Scratch {
    fn trim(&mut self) {
        const KEPT: usize = 1 << 22;
        self.partition.trim(KEPT);
        trim(&mut self.rows, KEPT);
        trim(&mut self.units, KEPT);
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// `(x - center) / (scale + eps)` for each row, statistics in f64 and two passes over what counts in its group.
///
/// Masked rows give 0 and count nowhere. Live rows of one unit in one group hold one value and count once; their
/// weights add up.
pub fn group_normalize<T: Real>(columns: Columns<'_, T>, rules: &Rules<'_>) -> Result<Vec<f32>> {
    check(columns, rules)?;
    SCRATCH.with_borrow_mut(|scratch| {
        let Scratch { partition, rows, units } = scratch;
        partition.fill(columns.groups)?;
        let mut out = vec![0.0; columns.x.len()];
        let mut members = Members { columns, rows, units, differing: None };
        let finite = match partition.order() {
            None => normalize(partition, |place| place, &mut members, rules, &mut out),
            Some(order) => normalize(partition, |place| order[place] as usize, &mut members, rules, &mut out),
        };
        let differing = members.differing;
        scratch.trim();
        if !finite {
            check_finite("x", columns.x, None)?;
        }
        if let Some((index, first)) = differing {
            let reason = format!(
                "must hold one value for all rows of a unit, found {} at index {index} and {} at index {first}",
                columns.x[index].to_f64(),
                columns.x[first].to_f64()
            );
            return Err(Error::unsupported("x", Some(index), reason));
        }
        match check_finite("x", &out, None) {
            Err(Error::NonFinite { index, .. }) => {
                Err(Error::unsupported("x", Some(index), format!("gives what float32 cannot hold at index {index}")))
            }
            _ => Ok(out),
        }
    })
}

fn check<T: Real>(columns: Columns<'_, T>, rules: &Rules<'_>) -> Result<()> {
    let Columns { x, groups, units, mask } = columns;
    let per_row = |argument, length| check_length(argument, length, x.len(), "one per row");
    per_row("group", groups.len())?;
    units.map_or(Ok(()), |units| per_row("unit", units.len()))?;
    mask.map_or(Ok(()), |mask| per_row("mask", mask.len()))?;
    if mask.is_some() || units.is_some() {
        check_finite("x", x, mask)?;
    }
    if !(rules.eps.is_finite() && rules.eps >= 0.0) {
        return Err(Error::unsupported("eps", None, format!("must be finite and not negative, found {}", rules.eps)));
    }
    let not_negative = |argument, column: &[f64]| {
        per_row(argument, column.len())?;
        check_finite(argument, column, mask)?;
        match (0..column.len()).find(|&i| column[i] < 0.0 && mask.is_none_or(|mask| mask[i])) {
            Some(i) => {
                let reason = format!("must not be negative, found {} at index {i}", column[i]);
                Err(Error::unsupported(argument, Some(i), reason))
            }
            None => Ok(()),
        }
    };
    match rules.center {
        Center::Weighted(weights) => not_negative("weight", weights)?,
        Center::Given(centers) => {
            per_row("center", centers.len())?;
            check_finite("center", centers, mask)?;
        }
        Center::Mean | Center::LeaveOneOut | Center::Zero => {}
    }
    match rules.scale {
        Scale::Given(scales) => not_negative("scale", scales),
        Scale::Std | Scale::BatchStd | Scale::One => Ok(()),
    }
}

/// Finds the rows that count in a group, where not every row does.
struct Members<'a, T> {
    columns: Columns<'a, T>,
    rows: &'a mut Vec<u32>,
    units: &'a mut Vec<(i64, u32)>,
    /// First row whose value is not that of its unit, with the unit's first row.
    differing: Option<(usize, usize)>,
}

impl<T: Real> Members<'_, T> {
    /// Whether some row may not count.
    fn selects(&self) -> bool {
        self.columns.units.is_some() || self.columns.mask.is_some()
    }

    /// The rows that count among those of a group.
    fn select(&mut self, rows: impl Iterator<Item = usize>) -> &[u32] {
        let Columns { x, units, mask, .. } = self.columns;
        let live = rows.filter(|&row| mask.is_none_or(|mask| mask[row]));
        self.rows.clear();
        let Some(units) = units else {
            self.rows.extend(live.map(|row| row as u32));
            return self.rows;
        };
        self.units.clear();
        self.units.extend(live.map(|row| (units[row], row as u32)));
        self.units.sort_unstable();
        for of_unit in self.units.chunk_by(|a, b| a.0 == b.0) {
            let first = of_unit[0].1;
            self.rows.push(first);
            let differs = |&&(_, row): &&(i64, u32)| x[row as usize].to_f64() != x[first as usize].to_f64();
            if let Some(&(_, row)) = of_unit.iter().find(differs)
                && self.differing.is_none_or(|(earliest, _)| (row as usize) < earliest)
            {
                self.differing = Some((row as usize, first as usize));
            }
        }
        // Sums then run in the order of rows, whatever the units are called.
        self.rows.sort_unstable();
        self.rows
    }
}

/// Mean and standard deviation, relative to the first value: equal values have a spread of exactly 0, and each differs
/// from their mean by exactly 0.
#[derive(Clone, Copy)]
struct Statistics {
    first: f64,
    /// Mean minus the first value.
    mean: f64,
    std: f64,
}

fn statistics(values: impl Iterator<Item = f64> + Clone, count: usize, ddof: usize) -> Statistics {
    let first = values.clone().next().unwrap_or(0.0);
    let mean = values.clone().map(|x| x - first).sum::<f64>() / count as f64;
    let squares: f64 = values.map(|x| (x - first - mean).powi(2)).sum();
    let std = if squares == 0.0 { 0.0 } else { (squares / count.saturating_sub(ddof) as f64).sqrt() };
    // An overflow must not pass for a large spread, which would turn every difference into 0.
    Statistics { first, mean, std: if std.is_finite() { std } else { f64::NAN } }
}

/// Writes the results of all groups. False where a mean over all rows of a group is not finite, as it is where a value is
/// not: where every row counts, looking for that first would be one more pass over memory.
fn normalize<T: Real>(
    partition: &Partition,
    row_at: impl Fn(usize) -> usize + Copy,
    members: &mut Members<'_, T>,
    rules: &Rules<'_>,
    out: &mut [f32],
) -> bool {
    let Columns { x, mask, .. } = members.columns;
    let batch_std = match rules.scale {
        Scale::BatchStd => batch_std(partition, row_at, members, rules),
        _ => 0.0,
    };
    if partition.order().is_none() && !members.selects() && !rules.have_columns() {
        return normalize_slices(x, partition.groups(), batch_std, rules, out);
    }
    let mut finite = true;
    for places in partition.groups() {
        let rows = places.map(row_at);
        if members.selects() {
            let live = rows.clone().filter(|&row| mask.is_none_or(|mask| mask[row]));
            let counting = members.select(rows);
            let values = counting.iter().map(|&row| x[row as usize].to_f64());
            normalize_group(
                x,
                live,
                statistics(values, counting.len(), rules.ddof),
                counting.len(),
                batch_std,
                rules,
                out,
            );
        } else {
            let values = rows.clone().map(|row| x[row].to_f64());
            let count = rows.len();
            let statistics = statistics(values, count, rules.ddof);
            finite &= statistics.mean.is_finite() || count == 0;
            normalize_group(x, rows, statistics, count, batch_std, rules, out);
        }
    }
    finite
}

/// [`normalize`] where every row of `x` counts and nothing else is read, group after group: slices need no check a row,
/// and the compiler takes several rows at a time.
fn normalize_slices<T: Real>(
    x: &[T],
    groups: impl Iterator<Item = Range<usize>>,
    batch_std: f64,
    rules: &Rules<'_>,
    out: &mut [f32],
) -> bool {
    let mut finite = true;
    for rows in groups {
        let (x, out) = (&x[rows.clone()], &mut out[rows]);
        let statistics = statistics(x.iter().map(|x| x.to_f64()), x.len(), rules.ddof);
        finite &= statistics.mean.is_finite();
        normalize_group(x, 0..x.len(), statistics, x.len(), batch_std, rules, out);
    }
    finite
}

/// Writes the results of a group's live rows, `count` of which count.
fn normalize_group<T: Real>(
    x: &[T],
    rows: impl Iterator<Item = usize> + Clone,
    statistics: Statistics,
    count: usize,
    batch_std: f64,
    rules: &Rules<'_>,
    out: &mut [f32],
) {
    let Statistics { first, mean, std } = statistics;
    let alone = count == 1 && rules.use_group_statistics();
    if alone && rules.singleton != Singleton::Raw {
        return;
    }
    // What is subtracted and divided by, where the group has one number for all its rows. Taking off 0 and dividing by
    // or multiplying with 1 change nothing.
    let (first, mean, factor) = match rules.center {
        Center::Given(_) | Center::Zero => (0.0, 0.0, 1.0),
        _ if alone => (0.0, 0.0, 1.0),
        Center::Mean => (first, mean, 1.0),
        Center::LeaveOneOut => (first, mean, count as f64 / (count as f64 - 1.0)),
        Center::Weighted(weights) => {
            let weighted = weighted_mean(rows.clone().map(|row| (x[row].to_f64() - first, weights[row])));
            (first, weighted.unwrap_or(mean), 1.0)
        }
    };
    let scale = match rules.scale {
        Scale::Given(_) | Scale::One => None,
        _ if alone => Some(1.0),
        Scale::Std => Some(std),
        Scale::BatchStd => Some(batch_std),
    };
    if scale == Some(0.0) && rules.zero_variance == ZeroVariance::Zero {
        return;
    }
    let divisor = scale.map_or(1.0, |scale| scale + rules.eps);
    let difference = |row: usize| match rules.center {
        Center::Given(centers) => x[row].to_f64() - centers[row],
        _ => factor * (x[row].to_f64() - first - mean),
    };
    if let Scale::Given(scales) = rules.scale {
        rows.for_each(|row| out[row] = rules.scaled(difference(row), scales[row]) as f32);
    } else {
        rows.for_each(|row| out[row] = (difference(row) / divisor) as f32);
    }
}

/// Mean under weights; weights that are all 0 have none.
fn weighted_mean(terms: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weights) = terms.fold((0.0, 0.0), |(sum, weights), (x, w)| (sum + w * x, weights + w));
    (weights != 0.0).then(|| sum / weights)
}

/// Standard deviation of everything that counts, summed in the order of rows.
fn batch_std<T: Real>(
    partition: &Partition,
    row_at: impl Fn(usize) -> usize + Copy,
    members: &mut Members<'_, T>,
    rules: &Rules<'_>,
) -> f64 {
    let skips = rules.singleton == Singleton::Skip && rules.use_group_statistics();
    let x = members.columns.x;
    let mut counts = vec![false; x.len()];
    for places in partition.groups() {
        let counting = members.select(places.map(row_at));
        if counting.len() > 1 || !skips {
            for &row in counting {
                counts[row as usize] = true;
            }
        }
    }
    let values = x.iter().zip(&counts).filter(|(_, counts)| **counts).map(|(x, _)| x.to_f64());
    statistics(values.clone(), values.count(), rules.ddof).std
}
