//! The point-to-point messages of a whole tree: single guarantees first, then many at random.

mod cluster;
mod guarantees;
mod random;
