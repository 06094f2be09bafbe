//! libi starts processes on many hosts and lets them talk to one another.
#![deny(missing_docs)]
