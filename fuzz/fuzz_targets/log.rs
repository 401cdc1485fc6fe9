//! Fuzz target: log.

#![no_main]

bluetick_fuzz::target!("log");
