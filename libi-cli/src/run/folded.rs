//! What ranks have printed, kept so that equal text is kept once.
//!
//! The output of a rank is a chain of lines. Chains that begin with the same lines share them, and
//! equal lines of different chains share their text: memory grows with what was printed, not with
//! how many ranks have printed it, but for four bytes for each rank.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use libi::Rank;
use libi_core::ranks::Ranks;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct FoldedText {
    lines: HashMap<Arc<[u8]>, u32>,
    texts: Vec<Arc<[u8]>>,
    /// The chain that another chain becomes with a line more.
    next: HashMap<(u32, u32), u32>,
    /// The chain before each, and its last line. Chain 0 is empty.
    chains: Vec<(u32, u32)>,
    /// The chain of each rank.
    of_rank: Vec<u32>,
}

impl FoldedText {
    /// Each of these ranks has printed this.
    pub(super) fn add(&mut self, ranks: &Ranks, text: &[u8]) {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = self.line(line);
            // Ranks that have printed the same before have done so now.
            let (mut before, mut after) = (u32::MAX, 0);
            for rank in ranks.iter().map(|rank| rank.0 as usize) {
                if self.of_rank.len() <= rank {
                    self.of_rank.resize(rank + 1, 0);
                }
                let chain = self.of_rank[rank];
                if chain != before {
                    (before, after) = (chain, self.longer(chain, line));
                }
                self.of_rank[rank] = after;
            }
        }
    }

    fn line(&mut self, text: &[u8]) -> u32 {
        if let Some(line) = self.lines.get(text) {
            return *line;
        }
        let (text, number) = (Arc::from(text), self.texts.len() as u32);
        self.texts.push(Arc::clone(&text));
        self.lines.insert(text, number);
        number
    }

    fn longer(&mut self, chain: u32, line: u32) -> u32 {
        if self.chains.is_empty() {
            self.chains.push((0, 0));
        }
        let new = self.chains.len() as u32;
        let longer = *self.next.entry((chain, line)).or_insert(new);
        if longer == new {
            self.chains.push((chain, line));
        }
        longer
    }

    /// Takes the texts, each with the ranks that have printed it, in the order of their lowest ranks.
    pub(super) fn take(&mut self) -> Vec<(Vec<u8>, Ranks)> {
        let taken = std::mem::take(self);
        let mut by_chain: BTreeMap<u32, Ranks> = BTreeMap::new();
        for (rank, chain) in (0..).zip(&taken.of_rank).filter(|(_, chain)| **chain != 0) {
            by_chain.entry(*chain).or_default().add(Rank(rank));
        }
        // The same text may have come in different parts.
        let mut by_text: BTreeMap<Vec<u8>, Ranks> = BTreeMap::new();
        for (chain, ranks) in by_chain {
            by_text.entry(taken.text(chain)).or_default().add_all(&ranks);
        }
        let mut groups: Vec<_> = by_text.into_iter().collect();
        groups.sort_by_key(|(_, ranks)| ranks.lowest());
        groups
    }

    fn text(&self, mut chain: u32) -> Vec<u8> {
        let mut lines = Vec::new();
        while chain != 0 {
            let (before, line) = self.chains[chain as usize];
            lines.push(&self.texts[line as usize][..]);
            chain = before;
        }
        lines.reverse();
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(ranks: &[u32]) -> Ranks {
        ranks.iter().copied().map(Rank).collect()
    }

    #[test]
    fn equal_text_is_one_group_however_it_came() {
        let mut folded = FoldedText::default();
        folded.add(&ranks(&[0, 2]), b"a\nb");
        folded.add(&ranks(&[1]), b"x\n");
        folded.add(&ranks(&[3]), b"a\n");
        folded.add(&ranks(&[0, 2]), b"c\n");
        folded.add(&ranks(&[3]), b"bc\n");
        let groups = folded.take();
        assert_eq!(groups, [(b"a\nbc\n".to_vec(), ranks(&[0, 2, 3])), (b"x\n".to_vec(), ranks(&[1]))]);
        assert!(folded.take().is_empty());
    }

    #[test]
    fn ten_thousand_ranks_that_print_the_same_are_kept_as_one() {
        let (mut folded, all) = (FoldedText::default(), Ranks::first(10_000));
        for number in 0..100 {
            folded.add(&all, format!("line {number}\n").as_bytes());
        }
        assert_eq!((folded.texts.len(), folded.chains.len()), (100, 101));
        assert_eq!(folded.take()[0].1, all);
    }

    #[test]
    fn a_line_that_differs_does_not_repeat_the_text_of_others() {
        let mut folded = FoldedText::default();
        for rank in 0..100 {
            folded.add(&ranks(&[rank]), format!("rank {rank}\n").as_bytes());
            folded.add(&ranks(&[rank]), &b"same\n".repeat(50));
        }
        assert_eq!((folded.texts.len(), folded.take().len()), (101, 100));
    }
}
