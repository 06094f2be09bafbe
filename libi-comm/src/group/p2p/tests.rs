//! Whole offices in a tree, single promises first, then many at random.

mod cluster;
mod guarantees;
mod random;
