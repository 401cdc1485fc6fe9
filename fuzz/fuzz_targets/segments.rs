//! Fuzz target: segments.

#![no_main]

bluetick_fuzz::target!("segments");
