//! Sets of numbers kept as ranges, such as ports.

use std::{fmt, ops::RangeInclusive};

/// Numbers as ranges that neither overlap nor touch, in order. Both ends of a range belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// No numbers.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds all numbers of `range`; what is there already stays.
    pub fn insert(&mut self, range: RangeInclusive<u64>) {
        let (mut begin, mut end) = range.into_inner();
        if begin > end {
            return;
        }
        // Those that overlap or touch the new range become one with it.
        let first = self.0.partition_point(|&(_, last)| last < begin.saturating_sub(1));
        let after = self.0.partition_point(|&(start, _)| start <= end.saturating_add(1));
        if let [(start, _), ..] = self.0[first..after] {
            begin = begin.min(start);
        }
        if let [.., (_, last)] = self.0[first..after] {
            end = end.max(last);
        }
        self.0.splice(first..after, [(begin, end)]);
    }

    /// Takes all numbers of `range` away; those that aren't there don't matter.
    pub fn remove(&mut self, range: RangeInclusive<u64>) {
        let (begin, end) = range.into_inner();
        if begin > end {
            return;
        }
        let first = self.0.partition_point(|&(_, last)| last < begin);
        let after = self.0.partition_point(|&(start, _)| start <= end);
        if first >= after {
            return;
        }
        let left = Some(self.0[first].0).filter(|&start| start < begin).map(|start| (start, begin - 1));
        let right = Some(self.0[after - 1].1).filter(|&last| last > end).map(|last| (end + 1, last));
        self.0.splice(first..after, left.into_iter().chain(right));
    }

    /// Adds all numbers of `other`.
    pub fn add(&mut self, other: &Self) {
        other.ranges().for_each(|range| self.insert(range));
    }

    /// Takes all numbers of `other` away.
    pub fn subtract(&mut self, other: &Self) {
        other.ranges().for_each(|range| self.remove(range));
    }

    /// Is the number there?
    pub fn contains(&self, number: u64) -> bool {
        self.holds(number, number)
    }

    /// Are all numbers of `other` there?
    pub fn contains_all(&self, other: &Self) -> bool {
        other.0.iter().all(|&(begin, end)| self.holds(begin, end))
    }

    /// Is any number in both?
    pub fn overlaps(&self, other: &Self) -> bool {
        other.0.iter().any(|&(begin, end)| {
            let next = self.0.partition_point(|&(_, last)| last < begin);
            self.0.get(next).is_some_and(|&(start, _)| start <= end)
        })
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        self.0.iter().map(|&(begin, end)| begin..=end)
    }

    /// The single numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.ranges().flatten()
    }

    /// The smallest number.
    pub fn first(&self) -> Option<u64> {
        self.0.first().map(|&(begin, _)| begin)
    }

    /// How many numbers there are. Saturates.
    pub fn len(&self) -> u64 {
        self.0.iter().fold(0, |sum, &(begin, end)| (end - begin).saturating_add(1).saturating_add(sum))
    }

    /// No numbers at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The `count` smallest numbers, or all if there are fewer.
    pub fn take(&self, count: u64) -> Self {
        let mut wanted = count;
        let mut taken = Self::new();
        for &(begin, end) in &self.0 {
            if wanted == 0 {
                break;
            }
            let last = end.min(begin.saturating_add(wanted - 1));
            taken.0.push((begin, last));
            wanted -= last - begin + 1;
        }
        taken
    }

    fn holds(&self, begin: u64, end: u64) -> bool {
        let next = self.0.partition_point(|&(_, last)| last < begin);
        self.0.get(next).is_some_and(|&(start, last)| start <= begin && end <= last)
    }
}

impl FromIterator<RangeInclusive<u64>> for Ranges {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u64>>>(ranges: I) -> Self {
        let mut all = Self::new();
        ranges.into_iter().for_each(|range| all.insert(range));
        all
    }
}

impl FromIterator<u64> for Ranges {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        numbers.into_iter().map(|number| number..=number).collect()
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|(begin, end)| format!("{begin}-{end}")).collect();
        write!(f, "[{}]", texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn steps() -> impl Strategy<Value = Vec<(bool, u64, u64)>> {
        prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..30)
    }

    fn build(steps: &[(bool, u64, u64)]) -> (Ranges, BTreeSet<u64>) {
        let (mut ranges, mut model) = (Ranges::new(), BTreeSet::new());
        for &(insert, begin, length) in steps {
            let range = begin..=begin + length;
            if insert {
                ranges.insert(range.clone());
                model.extend(range);
            } else {
                ranges.remove(range.clone());
                model.retain(|number| !range.contains(number));
            }
        }
        (ranges, model)
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(left in steps(), right in steps(), count in 0u64..80) {
            let (a, model_a) = build(&left);
            let (b, model_b) = build(&right);
            prop_assert_eq!(a.iter().collect::<BTreeSet<_>>(), model_a.clone());
            prop_assert_eq!(a.len(), model_a.len() as u64);
            let touching = a.0.windows(2).any(|pair| pair[0].1 + 1 >= pair[1].0);
            prop_assert!(!touching, "{} is not merged", a);
            prop_assert_eq!(a.contains_all(&b), model_b.is_subset(&model_a));
            prop_assert_eq!(a.overlaps(&b), !model_b.is_disjoint(&model_a));
            prop_assert_eq!(a.take(count).iter().collect::<Vec<_>>(), a.iter().take(count as usize).collect::<Vec<_>>());
            let (mut sum, mut difference) = (a.clone(), a);
            sum.add(&b);
            difference.subtract(&b);
            prop_assert_eq!(sum.iter().collect::<BTreeSet<_>>(), &model_a | &model_b);
            prop_assert_eq!(difference.iter().collect::<BTreeSet<_>>(), &model_a - &model_b);
        }
    }

    #[test]
    fn the_ends_of_the_number_line_are_no_trouble() {
        let mut all: Ranges = [0..=u64::MAX].into_iter().collect();
        all.insert(0..=0);
        all.insert(u64::MAX..=u64::MAX);
        assert_eq!((all.len(), all.to_string()), (u64::MAX, format!("[0-{}]", u64::MAX)));
        all.remove(0..=0);
        all.remove(u64::MAX..=u64::MAX);
        assert_eq!(all.to_string(), format!("[1-{}]", u64::MAX - 1));
    }
}
