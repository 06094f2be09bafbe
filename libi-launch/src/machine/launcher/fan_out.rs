//! How many children a node has at a time that it still sends files to.
//!
//! A node sends all files to each of its children, and as fast as it can: with k children it takes k
//! times as long as with one. Where that is longer than a launch, hosts are better given to children
//! than launched from here. In a tree in which each node has k children, n hosts have all files about
//!
//! ```text
//!   k x (the time for one child) + REM x ln(n + 1) / ln(k)
//! ```
//!
//! after the root. The node takes the k for which that is least. What one child takes is not known
//! before files are sent; the node assumes that it sends as fast as it receives. Until it has received
//! something, k is 2.
//!
//! | children that lack files, and launches in flight | a child says hello | |
//! |---|---|---|
//! | fewer than k | its part, as all of them and those to come | another host is launched |
//! | k | its part, as all of them | none is, before a child has all files |
//!
//! Where [hosts get files from each other](crate::machine::sources), no child is sent files from here,
//! and this does not apply, once a child has shown that it can connect.
//!
//! A launch that is silent does not count, as in the window. Where k is more than the window allows,
//! the window and the late-commit queue decide alone. In a chain (k = 1) every host would depend on all
//! before it, and talk through them: k is never less than 2.

use std::time::Duration;

/// The most for which it is worth to look.
const MOST: usize = 256;

/// What a node sends to its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) struct StagingLoad {
    /// The children that are up and lack files.
    pub(in crate::machine) children: usize,
    /// How long one takes alone, if that is known.
    pub(in crate::machine) each: Option<Duration>,
}

impl StagingLoad {
    /// How many children may lack files at a time, where so many hosts are left and a launch takes
    /// so long.
    pub(super) fn fan_out(&self, hosts: usize, rem: Duration) -> usize {
        let Some(each) = self.each else { return 2 };
        let depth = rem.as_secs_f64() * (hosts as f64 + 1.0).ln();
        let time = |children: usize| children as f64 * each.as_secs_f64() + depth / (children as f64).ln();
        // It falls, and then rises.
        (2..MOST).find(|children| time(*children) < time(children + 1)).unwrap_or(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn fan_out(each: Option<u64>, hosts: usize, rem: u64) -> usize {
        StagingLoad { children: 0, each: each.map(MS) }.fan_out(hosts, MS(rem))
    }

    #[test]
    fn the_longer_the_files_take_the_fewer_children_get_them_from_a_node() {
        assert_eq!(fan_out(None, 1_000, 172), 2, "nothing is known");
        assert_eq!(fan_out(Some(8_000), 1_000, 172), 2);
        assert_eq!(fan_out(Some(66), 31, 172), 4);
        assert_eq!(fan_out(Some(5), 1_000, 172), 24);
        assert_eq!(fan_out(Some(0), 1_000, 172), MOST);
    }
}
