//! Rows brought together by group.

use std::ops::Range;

use super::ids::{Column, group_ids};
use super::trim;
use crate::{Error, Result};

/// The rows of each group, in row order. Buffers are kept between calls: [`Partition::fill`] sets the content.
#[derive(Debug, Default)]
pub struct Partition {
    /// Rows sorted by group; empty where they lie that way already.
    order: Vec<u32>,
    /// First place of each group, and the number of rows.
    starts: Vec<u32>,
}

impl Partition {
    /// Partitions rows by any integers; only which of them are equal matters.
    pub fn fill(&mut self, groups: &[i64]) -> Result<()> {
        /// A table of counters is the fastest way while it is no longer than a few times the column.
        const CELLS_PER_ROW: usize = 4;
        let n = groups.len();
        if u32::try_from(n).is_err() {
            return Err(Error::Capacity {
                argument: "group".to_owned(),
                reason: format!("has {n} rows, at most 2**32 - 1 fit"),
            });
        }
        self.order.clear();
        if self.cut(groups) {
            return Ok(());
        }
        let (low, high) = groups.iter().fold((i64::MAX, i64::MIN), |(low, high), &g| (low.min(g), high.max(g)));
        if low >= 0 && (high as u64) < (CELLS_PER_ROW * n) as u64 {
            self.count(groups, high as usize + 1);
        } else {
            let dense = group_ids(&[("group", Column::Integers(groups))])?;
            self.count(&dense.ids, dense.n_groups);
        }
        Ok(())
    }

    /// Starts where the id changes from one row to the next, if no id is smaller than the one before.
    fn cut(&mut self, groups: &[i64]) -> bool {
        self.starts.clear();
        self.starts.push(0);
        let Some(&(mut previous)) = groups.first() else { return true };
        for (row, &group) in groups.iter().enumerate() {
            if group != previous {
                if group < previous {
                    return false;
                }
                self.starts.push(row as u32);
                previous = group;
            }
        }
        self.starts.push(groups.len() as u32);
        true
    }

    /// Counting sort of ids below `cells`. Ids without a row become empty groups.
    fn count(&mut self, groups: &[i64], cells: usize) {
        // One cell ahead: while rows are placed, `starts[g + 1]` moves from the start of group g to its end.
        self.starts.clear();
        self.starts.resize(cells + 2, 0);
        for &group in groups {
            self.starts[group as usize + 2] += 1;
        }
        for g in 2..self.starts.len() {
            self.starts[g] += self.starts[g - 1];
        }
        self.order.resize(groups.len(), 0);
        for (row, &group) in groups.iter().enumerate() {
            let place = &mut self.starts[group as usize + 1];
            self.order[*place as usize] = row as u32;
            *place += 1;
        }
        self.starts.pop();
    }

    /// The places of each group; [`Partition::order`] says which row stands at a place.
    pub fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0] as usize..pair[1] as usize)
    }

    /// Rows in the order of places; `None` where row and place are the same.
    pub fn order(&self) -> Option<&[u32]> {
        (!self.order.is_empty()).then_some(&self.order)
    }

    /// Forgets the content, and gives back to the system what is more than `kept` entries of a buffer.
    pub fn trim(&mut self, kept: usize) {
        trim(&mut self.order, kept);
        trim(&mut self.starts, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In order, dense or sparse: each row stands once, in a group of its id, in row order.
        #[test]
        fn rows_of_one_id_lie_together(ids in prop::collection::vec(-2i64..6, 0..60), sorted: bool, sparse: bool) {
            let mut ids: Vec<i64> = ids.into_iter().map(|id| if sparse { id << 59 } else { id }).collect();
            if sorted {
                ids.sort_unstable();
            }
            let mut partition = Partition::default();
            partition.fill(&[5, 4, 4]).unwrap();
            partition.fill(&ids).unwrap();
            let row_at = |place: usize| partition.order().map_or(place, |order| order[place] as usize);
            let mut seen = vec![false; ids.len()];
            let mut closed = Vec::new();
            for places in partition.groups().filter(|places| !places.is_empty()) {
                let rows: Vec<usize> = places.map(row_at).collect();
                prop_assert!(rows.is_sorted() && rows.iter().all(|&row| ids[row] == ids[rows[0]]));
                prop_assert!(!closed.contains(&ids[rows[0]]));
                closed.push(ids[rows[0]]);
                for row in rows {
                    seen[row] = true;
                }
            }
            prop_assert!(seen.iter().all(|&seen| seen));
        }
    }

    #[test]
    fn a_trimmed_partition_keeps_no_more_than_was_said() {
        let mut partition = Partition::default();
        partition.fill(&(0..1000).rev().collect::<Vec<_>>()).unwrap();
        partition.trim(10);
        assert!(partition.order.capacity() < 100 && partition.starts.capacity() < 100);
        partition.fill(&[1, 0]).unwrap();
        assert_eq!(partition.order(), Some(&[1, 0][..]));
    }
}
