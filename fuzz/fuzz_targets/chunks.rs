//! Fuzz target: chunks.

#![no_main]

bluetick_fuzz::target!("chunks");
