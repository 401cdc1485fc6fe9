//! Fuzz target: cursors.

#![no_main]

bluetick_fuzz::target!("cursors");
