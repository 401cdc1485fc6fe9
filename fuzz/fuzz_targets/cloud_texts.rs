//! Fuzz target: cloud texts.

#![no_main]

bluetick_fuzz::target!("cloud_texts");
