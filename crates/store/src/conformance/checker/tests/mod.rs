//! The checker is itself tested: it is silent about good runs, and finds each of many single faults by its
//! name.

mod good;
mod journal;
mod mutations;
mod random;
mod run;
mod stage;
