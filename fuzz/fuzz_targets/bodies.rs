//! Fuzz target: bodies.

#![no_main]

bluetick_fuzz::target!("bodies");
