//! Fuzz target: cloud rows.

#![no_main]

bluetick_fuzz::target!("cloud_rows");
