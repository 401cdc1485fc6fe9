//! Fuzz target: rows.

#![no_main]

bluetick_fuzz::target!("rows");
