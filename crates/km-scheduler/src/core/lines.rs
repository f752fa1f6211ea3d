//! The waiting pods in the order in which they are placed: the most important first, then the first come. Equal ones
//! stand in one line: where one finds no place, none behind it does, so a round costs what it places and the number of
//! lines, however many wait.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

use km_placement::{Need, PendingPod};
use km_podtask::PodKey;

/// Names a line: the address of the need that its pods share. Of no meaning for any order.
type LineId = usize;

/// All lines.
#[derive(Default)]
pub(super) struct Lines {
    lines: BTreeMap<LineId, Line>,
}

/// Pods that need the same, by the number in which they came.
struct Line {
    need: Arc<Need>,
    pods: BTreeMap<u64, PodKey>,
    /// Those that have a place promised which the others don't have.
    promised: BTreeSet<u64>,
}

fn line_of(need: &Arc<Need>) -> LineId {
    Arc::as_ptr(need).addr()
}

impl Lines {
    pub fn add(&mut self, key: &PodKey, pending: &PendingPod, promised: bool) {
        let line = self.lines.entry(line_of(&pending.need)).or_insert_with(|| Line {
            need: Arc::clone(&pending.need),
            pods: BTreeMap::new(),
            promised: BTreeSet::new(),
        });
        line.pods.insert(pending.queued, key.clone());
        if promised {
            line.promised.insert(pending.queued);
        } else {
            line.promised.remove(&pending.queued);
        }
    }

    pub fn remove(&mut self, pending: &PendingPod) {
        let id = line_of(&pending.need);
        let Some(line) = self.lines.get_mut(&id) else { return };
        line.pods.remove(&pending.queued);
        line.promised.remove(&pending.queued);
        if line.pods.is_empty() {
            self.lines.remove(&id);
        }
    }

    /// The pods whose need is of that kind, in no order.
    pub fn pods_with(&self, kind: impl Fn(&Need) -> bool) -> impl Iterator<Item = &PodKey> {
        self.lines.values().filter(move |line| kind(&line.need)).flat_map(|line| line.pods.values())
    }

    /// All pods, from the first.
    pub fn front(&self) -> Front<'_> {
        let heads = self.lines.iter().filter_map(|(id, line)| Some(turn(*id, line, *line.pods.first_key_value()?.0)));
        Front { lines: self, turns: heads.collect(), last: None, closed: BTreeMap::new() }
    }
}

/// The smallest goes first.
type Turn = Reverse<(Reverse<i32>, u64, LineId)>;

fn turn(id: LineId, line: &Line, number: u64) -> Turn {
    Reverse((Reverse(line.need.priority), number, id))
}

/// A walk through the lines.
pub(super) struct Front<'a> {
    lines: &'a Lines,
    turns: BinaryHeap<Turn>,
    last: Option<(LineId, u64)>,
    /// Lines in which only those with a promise are still looked at, and who was refused in vain.
    closed: BTreeMap<LineId, u64>,
}

impl<'a> Front<'a> {
    /// The pod that gave the last answer found no place: nor do those behind it in its line.
    pub fn close(&mut self) {
        if let Some((id, number)) = self.last {
            self.closed.entry(id).or_insert(number);
        }
    }

    /// There may be room again for those who were passed over.
    pub fn reopen(&mut self) {
        for (id, number) in std::mem::take(&mut self.closed) {
            if self.last.is_some_and(|(last, _)| last == id) {
                continue;
            }
            // Whoever of the line has a turn already gives it to the first that was passed over.
            self.turns.retain(|Reverse((_, _, other))| *other != id);
            self.push_behind(id, number);
        }
    }

    fn push_behind(&mut self, id: LineId, number: u64) {
        let Some(line) = self.lines.lines.get(&id) else { return };
        let next = match self.closed.contains_key(&id) {
            true => line.promised.range(number + 1..).next(),
            false => line.pods.range(number + 1..).next().map(|(number, _)| number),
        };
        self.turns.extend(next.map(|next| turn(id, line, *next)));
    }
}

impl<'a> Iterator for Front<'a> {
    type Item = &'a PodKey;

    fn next(&mut self) -> Option<&'a PodKey> {
        if let Some((id, number)) = self.last.take() {
            self.push_behind(id, number);
        }
        let Reverse((_, number, id)) = self.turns.pop()?;
        self.last = Some((id, number));
        self.lines.lines.get(&id)?.pods.get(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods `namespace/name` with their priorities; equal ones share a need. The name's last letter names the line.
    fn lines(pods: &[(&str, i32)], promised: &str) -> Lines {
        let mut needs: BTreeMap<(char, i32), Arc<Need>> = BTreeMap::new();
        let mut lines = Lines::default();
        for (queued, (name, priority)) in (0..).zip(pods) {
            let kind = (name.chars().next_back().unwrap(), *priority);
            let need = needs.entry(kind).or_insert_with(|| {
                let mut need = Need::default();
                need.priority = *priority;
                Arc::new(need)
            });
            let pending = PendingPod { id: (*name).to_owned(), need: Arc::clone(need), queued };
            lines.add(&PodKey::new("n", name), &pending, *name == promised);
        }
        lines
    }

    /// Who gets a turn, when those of `refused` find no place and `frees` makes room by the place that it finds.
    fn walk(lines: &Lines, refused: &[&str], frees: &str) -> Vec<String> {
        let mut front = lines.front();
        let mut seen = Vec::new();
        while let Some(key) = front.next() {
            seen.push(key.name.clone());
            if refused.contains(&key.name.as_str()) {
                front.close();
            } else if key.name == frees {
                front.reopen();
            }
        }
        seen
    }

    #[test]
    fn the_most_important_go_first_and_then_the_first_come() {
        let lines = lines(&[("1a", 0), ("2b", 0), ("3a", 0), ("4c", 7), ("5b", 0), ("6c", 7)], "");
        assert_eq!(walk(&lines, &[], ""), ["4c", "6c", "1a", "2b", "3a", "5b"]);
    }

    #[test]
    fn behind_a_refused_pod_only_promises_are_looked_at() {
        let pods = [("1a", 0), ("2b", 0), ("3a", 0), ("4a", 0), ("5b", 0), ("6a", 0)];
        assert_eq!(walk(&lines(&pods, ""), &["1a"], ""), ["1a", "2b", "5b"]);
        assert_eq!(walk(&lines(&pods, "4a"), &["1a"], ""), ["1a", "2b", "4a", "5b"]);
        assert_eq!(walk(&lines(&pods, "4a"), &["1a", "2b", "4a"], ""), ["1a", "2b", "4a"]);
    }

    #[test]
    fn who_was_passed_over_is_looked_at_when_there_is_room_again() {
        let pods = [("1a", 0), ("2a", 0), ("3b", 0), ("4a", 0), ("5b", 0), ("6a", 0)];
        assert_eq!(walk(&lines(&pods, ""), &["1a"], "3b"), ["1a", "3b", "2a", "4a", "5b", "6a"]);
        // One with a promise had its turn at hand: it comes once.
        assert_eq!(walk(&lines(&pods, "6a"), &["1a"], "3b"), ["1a", "3b", "2a", "4a", "5b", "6a"]);
        // Nobody gets a second turn.
        assert_eq!(walk(&lines(&pods, "4a"), &["1a"], "4a"), ["1a", "3b", "4a", "5b", "6a"]);
    }

    #[test]
    fn a_pod_that_went_is_in_no_line() {
        let mut lines = lines(&[("1a", 0), ("2a", 0)], "");
        let need = Arc::clone(&lines.lines.values().next().unwrap().need);
        for queued in 0..2 {
            lines.remove(&PendingPod { id: String::new(), need: Arc::clone(&need), queued });
            assert_eq!(walk(&lines, &[], "").len(), 1 - usize::try_from(queued).unwrap());
        }
        assert!(lines.lines.is_empty());
    }
}
