//! Dense group ids of composite keys, in order of first appearance.
//!
//! A composite key is folded one column at a time: the ids so far are the scope of the next column, so every step is
//! the same small problem, a table from (scope, value) to an id. Values are compared as they are, never cast, and a
//! hash only says where to look: outputs depend neither on it nor on its random seed.

use std::borrow::Cow;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::trim;
use crate::cpu::prefetch;
use crate::hash::BytesHash;
use crate::threads;
use crate::{Error, Result};

/// One column of a composite key.
#[derive(Debug, Clone)]
pub enum Column<'a> {
    /// Integers or booleans, equal by value. Unsigned 64-bit columns pass their bits.
    Integers(&'a [i64]),
    /// Floats: a NaN equals every NaN, and -0.0 equals 0.0.
    Floats(&'a [f64]),
    /// Strings of bytes, equal when they hold the same bytes.
    Bytes(Cow<'a, [&'a [u8]]>),
}

impl Column<'_> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Bytes(rows) => rows.len(),
        }
    }

    /// Whether the column has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The group of every row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupIds {
    /// Id of each row's group; a group's id is the number of groups that appeared before it.
    pub ids: Vec<i64>,
    /// Number of groups.
    pub n_groups: usize,
}

/// The groups so far, inside which the next column is looked at.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// Empty where all rows are of one group.
    ids: &'a [i64],
    n_groups: usize,
}

/// The scope of the first column.
const ONE: Scope<'_> = Scope { ids: &[], n_groups: 1 };

impl Scope<'_> {
    fn of(self, row: usize) -> u32 {
        self.ids.get(row).map_or(0, |&id| id as u32)
    }
}

impl GroupIds {
    fn scope(&self) -> Scope<'_> {
        Scope { ids: &self.ids, n_groups: self.n_groups }
    }
}

/// Dense ids of the distinct rows of `columns`, each a name and its values; all columns are equally long.
pub fn group_ids(columns: &[(&str, Column<'_>)]) -> Result<GroupIds> {
    let Some((first, _)) = columns.first() else {
        return Err(Error::Shape {
            argument: "columns".to_owned(),
            index: None,
            reason: "has 0 entries, expected at least 1".to_owned(),
        });
    };
    let n = columns[0].1.len();
    for (name, column) in columns {
        if column.len() != n {
            return Err(Error::length(name, column.len(), n, &format!("as many as `{first}`")));
        }
    }
    if n >= EMPTY as usize {
        return Err(Error::Capacity {
            argument: (*first).to_owned(),
            reason: format!("has {n} rows, expected fewer than {EMPTY}"),
        });
    }
    let seed = RandomState::new().hash_one(n);
    let within = |scope: Scope<'_>, column: &Column<'_>| match column {
        Column::Integers(values) => by_integer(scope, values, seed),
        Column::Floats(values) => by_word(scope, n, |row| canonical_bits(values[row]), seed),
        Column::Bytes(rows) => {
            let hash = BytesHash::random();
            by_bytes(scope, rows, seed, |bytes| hash.hash(bytes))
        }
    };
    let others = columns[1..].iter().map(|(_, column)| column);
    Ok(others.fold(within(ONE, &columns[0].1), |groups, column| within(groups.scope(), column)))
}

/// Bits of `x` under which NaN equals NaN and -0.0 equals 0.0.
pub fn canonical_bits(x: f64) -> u64 {
    if x.is_nan() { 0x7ff8 << 48 } else { (x + 0.0).to_bits() }
}

/// A table of every possible key is the fastest one while it is no longer than a few times the column.
fn by_integer(scope: Scope<'_>, values: &[i64], seed: u64) -> GroupIds {
    let (low, high) = values.iter().fold((i64::MAX, i64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    let width = (i128::from(high) - i128::from(low) + 1).max(0) as u128;
    let cells = width.saturating_mul(scope.n_groups as u128);
    if cells > 4 * values.len() as u128 + 64 {
        return by_word(scope, values.len(), |row| values[row] as u64, seed);
    }
    let mut table = vec![EMPTY; cells as usize];
    let mut n_groups = 0;
    let number = |(row, &value): (usize, &i64)| {
        let id = &mut table[scope.of(row) as usize * width as usize + (value - low) as usize];
        if *id == EMPTY {
            *id = n_groups;
            n_groups += 1;
        }
        i64::from(*id)
    };
    let ids = values.iter().enumerate().map(number).collect();
    GroupIds { ids, n_groups: n_groups as usize }
}

fn by_word(scope: Scope<'_>, n: usize, word: impl Fn(usize) -> u64, seed: u64) -> GroupIds {
    let key = |row: usize| ScopedWord { word: word(row), scope: scope.of(row) };
    let hash = |key: ScopedWord| {
        let scope = u64::from(key.scope).wrapping_mul(ODD) ^ seed.rotate_left(32) | 1;
        let product = u128::from(key.word ^ seed) * u128::from(scope);
        (product >> 64) as u64 ^ product as u64
    };
    number(n, key, hash, |_, _| true)
}

/// Groups of rows of bytes within `scope`. Where most rows lie in the same place as the row before, as the name of a task
/// does that its rows share, only the others are looked at.
fn by_bytes(scope: Scope<'_>, rows: &[&[u8]], seed: u64, hash: impl Fn(&[u8]) -> u64 + Sync) -> GroupIds {
    let repeats = |row: usize| row > 0 && std::ptr::eq(rows[row], rows[row - 1]) && scope.of(row) == scope.of(row - 1);
    let heads = (0..rows.len()).filter(|&row| !repeats(row));
    if heads.clone().nth(rows.len() / 2).is_some() {
        return by_samples(scope, rows, seed, hash);
    }
    let heads: Vec<usize> = heads.collect();
    let scope_of_heads: Vec<_> = heads.iter().map(|&row| i64::from(scope.of(row))).collect();
    let rows_of_heads: Vec<_> = heads.iter().map(|&row| rows[row]).collect();
    let scope = Scope { ids: &scope_of_heads, ..scope };
    let groups = by_samples(scope, &rows_of_heads, seed, hash);
    let mut ids = Vec::with_capacity(rows.len());
    let ends = heads.iter().skip(1).copied().chain([rows.len()]);
    for (id, end) in groups.ids.into_iter().zip(ends) {
        ids.resize(end, id);
    }
    GroupIds { ids, n_groups: groups.n_groups }
}

/// Groups of rows of bytes within `scope`. A hash of a few samples proposes the groups, and every row is compared with
/// the first one of its group: what never met is never read as a whole, what met again is read once. Rows that differ
/// from the first one are then grouped among themselves by a hash of all their bytes, and compared again.
///
/// This goes window by window, so that what the samples brought near is still there when the row is compared. Two
/// threads were no faster at it than one.
fn by_samples(scope: Scope<'_>, rows: &[&[u8]], seed: u64, hash: impl Fn(&[u8]) -> u64 + Sync) -> GroupIds {
    let n = rows.len();
    let scoped = |row: usize, word: u64| ScopedWord { word, scope: scope.of(row) };
    let mix = |key: ScopedWord| key.word ^ u64::from(key.scope).wrapping_mul(ODD);
    // What lies in one place need not be read.
    let same = |a: usize, b: usize| std::ptr::eq(rows[a], rows[b]) || rows[a] == rows[b];
    let mut proposed = Numbering::with_capacity(n);
    let mut strays = Vec::new();
    for start in (0..n).step_by(WINDOW) {
        let window = start..n.min(start + WINDOW);
        let print = |row: usize| {
            if let Some(later) = rows.get(row + ROWS_AHEAD) {
                // A sample lies on two lines now and then.
                samples(later).for_each(|sample| {
                    prefetch(sample);
                    prefetch(&raw const sample[SAMPLE - 1]);
                });
            }
            sampled_hash(rows[row], &hash)
        };
        let prints: Vec<u64> = window.clone().map(print).collect();
        proposed.extend(window.clone(), |row| scoped(row, prints[row - start]), mix, |_, _| true);
        let first_of = |row: usize| proposed.first_rows[proposed.ids[row] as usize] as usize;
        strays.extend(window.clone().filter(|&row| {
            let ahead = row + ROWS_AHEAD;
            if ahead < window.end && !std::ptr::eq(rows[first_of(ahead)], rows[ahead]) {
                prefetch_all(rows[first_of(ahead)]);
                prefetch_all(rows[ahead]);
            }
            !same(first_of(row), row)
        }));
    }
    let mut groups = proposed.groups();
    if strays.is_empty() {
        return groups;
    }
    let hashes = hashes_of(&strays, rows, hash);
    let same = |first: usize, stray: usize| same(strays[first], strays[stray]);
    let others = number(strays.len(), |stray| scoped(strays[stray], hashes[stray]), mix, same);
    for (&row, id) in strays.iter().zip(&others.ids) {
        groups.ids[row] = groups.n_groups as i64 + id;
    }
    by_integer(ONE, &groups.ids, seed)
}

/// Hashes of all the bytes of the `chosen` rows, on several threads where there are enough of them.
fn hashes_of(chosen: &[usize], rows: &[&[u8]], hash: impl Fn(&[u8]) -> u64 + Sync) -> Vec<u64> {
    let mut hashes = vec![0; chosen.len()];
    let bytes: usize = chosen.iter().map(|&row| rows[row].len()).sum();
    let chunk = if bytes < BYTES_FOR_THREADS { chosen.len() } else { ROWS_PER_CHUNK };
    let mut chunks: Vec<_> = hashes.chunks_mut(chunk).collect();
    threads::for_each(&mut chunks, |index, out| {
        for (at, out) in (index * chunk..).zip(out.iter_mut()) {
            if let Some(&later) = chosen.get(at + ROWS_AHEAD) {
                prefetch_all(rows[later]);
            }
            *out = hash(rows[chosen[at]]);
        }
    });
    hashes
}

/// Sixteen bytes at the start, after each third, and at the end of a long row.
fn samples(bytes: &[u8]) -> impl Iterator<Item = &[u8; SAMPLE]> {
    let span = bytes.len().saturating_sub(SAMPLE);
    (0..SAMPLES).filter_map(move |i| bytes[span * i / (SAMPLES - 1)..].first_chunk())
}

/// A hash of the samples and the length of a long row, or of a whole short one.
fn sampled_hash(bytes: &[u8], hash: impl Fn(&[u8]) -> u64) -> u64 {
    if bytes.len() <= 4 * SAMPLE * SAMPLES {
        return hash(bytes);
    }
    let mut sampled = [[0; SAMPLE]; SAMPLES];
    sampled.iter_mut().zip(samples(bytes)).for_each(|(out, sample)| *out = *sample);
    hash(sampled.as_flattened()) ^ (bytes.len() as u64).wrapping_mul(ODD)
}

fn prefetch_all(bytes: &[u8]) {
    bytes.iter().step_by(LINE).take(LINES_AHEAD).for_each(|line| prefetch(line));
}

const SAMPLE: usize = 16;
const SAMPLES: usize = 4;

/// Below this a thread would cost more than it hashes.
const BYTES_FOR_THREADS: usize = 1 << 20;
const ROWS_PER_CHUNK: usize = 1024;
const LINE: usize = 64;
const LINES_AHEAD: usize = 64;
/// Rows whose samples the second cache holds.
const WINDOW: usize = 1024;
const ROWS_AHEAD: usize = 12;
const SLOTS_AHEAD: usize = 8;
const EMPTY: u32 = u32::MAX;
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, PartialEq, Eq)]
struct ScopedWord {
    word: u64,
    scope: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    word: u64,
    scope: u32,
    id: u32,
}

const FREE: Slot = Slot { word: 0, scope: 0, id: EMPTY };

thread_local! {
    /// A table that is kept between calls: the system hands out new memory page by page, at a cost that shows.
    static SLOTS: Cell<Vec<Slot>> = Cell::default();
}

/// Numbers rows `0..n` by key in order of first appearance. Equal keys meet only if `same(first row, row)` agrees.
fn number(
    n: usize,
    key: impl Fn(usize) -> ScopedWord,
    hash: impl Fn(ScopedWord) -> u64,
    same: impl Fn(usize, usize) -> bool,
) -> GroupIds {
    let mut numbering = Numbering::with_capacity(n);
    numbering.extend(0..n, key, hash, same);
    numbering.groups()
}

/// Ids of the rows seen so far, and the first row of each.
struct Numbering {
    slots: Vec<Slot>,
    first_rows: Vec<u32>,
    ids: Vec<i64>,
}

impl Numbering {
    fn with_capacity(rows: usize) -> Self {
        let mut slots = SLOTS.take();
        slots.resize(64, FREE);
        Self { slots, first_rows: Vec::new(), ids: Vec::with_capacity(rows) }
    }

    fn groups(mut self) -> GroupIds {
        const KEPT: usize = 1 << 18;
        trim(&mut self.slots, KEPT);
        SLOTS.set(self.slots);
        GroupIds { n_groups: self.first_rows.len(), ids: self.ids }
    }

    /// Numbers the next `rows`.
    fn extend(
        &mut self,
        rows: Range<usize>,
        key: impl Fn(usize) -> ScopedWord,
        hash: impl Fn(ScopedWord) -> u64,
        same: impl Fn(usize, usize) -> bool,
    ) {
        let Self { slots, first_rows, ids } = self;
        for row in rows.clone() {
            if 3 * first_rows.len() >= 2 * slots.len() {
                enlarge(slots, &hash);
            }
            if row + SLOTS_AHEAD < rows.end {
                prefetch(&raw const slots[home(hash(key(row + SLOTS_AHEAD)), slots.len())]);
            }
            let key = key(row);
            let mut at = home(hash(key), slots.len());
            let id = loop {
                let slot = &mut slots[at];
                if slot.id == EMPTY {
                    *slot = Slot { word: key.word, scope: key.scope, id: first_rows.len() as u32 };
                    first_rows.push(row as u32);
                    break slot.id;
                }
                if slot.word == key.word && slot.scope == key.scope && same(first_rows[slot.id as usize] as usize, row)
                {
                    break slot.id;
                }
                at = (at + 1) & (slots.len() - 1);
            };
            ids.push(i64::from(id));
        }
    }
}

/// Gives a table four times its slots.
fn enlarge(slots: &mut Vec<Slot>, hash: impl Fn(ScopedWord) -> u64) {
    let taken: Vec<Slot> = slots.iter().copied().filter(|slot| slot.id != EMPTY).collect();
    let larger = 4 * slots.len();
    slots.clear();
    slots.resize(larger, FREE);
    for slot in taken {
        let mut at = home(hash(ScopedWord { word: slot.word, scope: slot.scope }), larger);
        while slots[at].id != EMPTY {
            at = (at + 1) & (larger - 1);
        }
        slots[at] = slot;
    }
}

/// First slot to look at among a power of two of them; multiplying brings every bit of the hash to the top.
fn home(hash: u64, slots: usize) -> usize {
    (hash.wrapping_mul(ODD) >> (64 - slots.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    fn twin<K: std::hash::Hash + Eq>(keys: impl IntoIterator<Item = K>) -> GroupIds {
        let mut seen = HashMap::new();
        let ids = keys
            .into_iter()
            .map(|key| {
                let next = seen.len() as i64;
                *seen.entry(key).or_insert(next)
            })
            .collect();
        GroupIds { ids, n_groups: seen.len() }
    }

    fn borrowed(rows: &[Vec<u8>]) -> Vec<&[u8]> {
        rows.iter().map(Vec::as_slice).collect()
    }

    proptest! {
        #[test]
        fn any_mixture_agrees_with_a_map(
            rows in prop::collection::vec((-3i64..3, any::<i64>(), prop::sample::select(vec![0.0, -0.0, 1.5, f64::NAN, -f64::NAN]),
                prop::collection::vec(0u8..3, 0..4)), 0..300)
        ) {
            let small: Vec<i64> = rows.iter().map(|r| r.0).collect();
            let large: Vec<i64> = rows.iter().map(|r| r.1 % 5 * (i64::MAX / 5)).collect();
            let floats: Vec<f64> = rows.iter().map(|r| r.2).collect();
            let bytes: Vec<Vec<u8>> = rows.iter().map(|r| r.3.clone()).collect();
            let columns = [
                ("a", Column::Integers(&small)),
                ("b", Column::Bytes(borrowed(&bytes).into())),
                ("c", Column::Floats(&floats)),
                ("d", Column::Integers(&large)),
            ];
            let expected = twin((0..rows.len()).map(|i| {
                let float = if floats[i].is_nan() { 9 } else { (floats[i] * 2.0) as i64 };
                (small[i], bytes[i].clone(), float, large[i])
            }));
            prop_assert_eq!(group_ids(&columns).unwrap(), expected);
        }

        #[test]
        fn colliding_hashes_stay_apart(rows in prop::collection::vec((0i64..3, prop::collection::vec(any::<u8>(), 0..3)), 0..200)) {
            let bytes: Vec<Vec<u8>> = rows.iter().map(|r| r.1.clone()).collect();
            let scope = twin(rows.iter().map(|r| r.0));
            let expected = twin(&rows);
            for weak in [|_: &[u8]| 0u64, |bytes: &[u8]| bytes.len() as u64] {
                prop_assert_eq!(by_bytes(scope.scope(), &borrowed(&bytes), 0, weak), expected.clone());
            }
        }
    }

    proptest! {
        /// Long and short rows, most with the same samples, over several windows.
        #[test]
        fn rows_that_differ_anywhere_stay_apart(
            rows in prop::collection::vec((
                0i64..2,
                prop::sample::select(vec![0usize, 1, 255, 256, 257, 400, 1000]),
                any::<prop::sample::Index>(),
                0u8..2,
            ), 1..40),
            repeats in 1usize..80,
        ) {
            let rows: Vec<(i64, Vec<u8>)> = rows
                .into_iter()
                .map(|(scope, length, place, change)| {
                    let mut text = vec![b'a'; length];
                    if length > 0 {
                        text[place.index(length)] += change;
                    }
                    (scope, text)
                })
                .collect();
            let rows = vec![rows; repeats].concat();
            let scope = twin(rows.iter().map(|row| row.0));
            let bytes: Vec<&[u8]> = rows.iter().map(|row| row.1.as_slice()).collect();
            let expected = twin(&rows);
            let keys = BytesHash::random();
            prop_assert_eq!(by_bytes(scope.scope(), &bytes, 0, |bytes| keys.hash(bytes)), expected.clone());
            prop_assert_eq!(by_bytes(scope.scope(), &bytes, 0, |bytes| bytes.len() as u64), expected);
        }
    }

    /// One length and equal samples, so that every row is proposed for one group; one byte between them tells 600 apart.
    /// Each row is hashed twice at most, whatever the number of groups.
    #[test]
    fn long_rows_that_agree_wherever_they_are_sampled_stay_apart() {
        let texts = |distinct: usize| -> Vec<Vec<u8>> {
            (0..3 * WINDOW)
                .map(|i| {
                    let mut text = vec![b'a'; 400];
                    text[40..48].copy_from_slice(&(i * 7 % distinct).to_le_bytes());
                    text
                })
                .collect()
        };
        let sampled = |text: &Vec<u8>| samples(text).flatten().copied().collect::<Vec<u8>>();
        for distinct in [1, 2, 600, 3 * WINDOW] {
            let texts = texts(distinct);
            assert!(texts.iter().all(|text| sampled(text) == sampled(&texts[0])));
            let hashed = AtomicUsize::new(0);
            let scope = twin((0..texts.len()).map(|i| i % 2));
            let keys = BytesHash::random();
            let groups = by_bytes(scope.scope(), &borrowed(&texts), 0, |bytes| {
                hashed.fetch_add(1, Ordering::Relaxed);
                keys.hash(bytes)
            });
            assert_eq!(groups, twin(texts.iter().enumerate().map(|(i, text)| (i % 2, text))));
            assert!(hashed.into_inner() <= 2 * texts.len());
        }
    }

    /// A row that lies where another one does is that row.
    #[test]
    fn rows_that_share_their_memory_are_equal() {
        let text = vec![b'a'; 1000];
        let rows: Vec<&[u8]> = vec![&text, &text[..999], &text, &text[1..], &text[..999]];
        let groups = group_ids(&[("x", Column::Bytes(rows.into()))]).unwrap();
        assert_eq!(groups, GroupIds { ids: vec![0, 1, 0, 1, 1], n_groups: 2 });
    }

    #[test]
    fn rows_that_repeat_in_place_keep_their_scope() {
        let (a, b) = (vec![b'a'; 40], vec![b'a'; 40]);
        let rows: Vec<&[u8]> = vec![&a, &a, &a, &a, &b, &b, &b, &[], &[], &[]];
        let scope = [0, 0, 1, 1, 1, 1, 1, 0, 0, 0];
        let groups = group_ids(&[("scope", Column::Integers(&scope)), ("x", Column::Bytes(rows.into()))]).unwrap();
        assert_eq!(groups, GroupIds { ids: vec![0, 0, 1, 1, 1, 1, 1, 2, 2, 2], n_groups: 3 });
    }

    #[test]
    fn wide_integers_are_exact() {
        let values = [i64::MIN, i64::MAX, 0, 1 << 53, (1 << 53) + 1, i64::MIN];
        let groups = group_ids(&[("x", Column::Integers(&values))]).unwrap();
        assert_eq!(groups, GroupIds { ids: vec![0, 1, 2, 3, 4, 0], n_groups: 5 });
    }

    #[test]
    fn lengths_must_agree() {
        let error = group_ids(&[("x", Column::Integers(&[1, 2])), ("y", Column::Floats(&[1.0]))]).unwrap_err();
        assert_eq!(error.to_string(), "`y` has 1 entries, expected 2 (as many as `x`)");
        assert_eq!(group_ids(&[]).unwrap_err().argument(), "columns");
        assert_eq!(group_ids(&[("x", Column::Integers(&[]))]).unwrap(), GroupIds { ids: vec![], n_groups: 0 });
    }
}
