//! Shared parts of the fuzz targets: the memory bound, and the macro that feeds bytes to a target.
//! The checked properties are in `crates/hostile`.

use std::alloc::System;

use cap::Cap;

pub use bluetick_hostile::feed;
pub use libfuzzer_sys;

/// Bounds the memory of a target, in bytes. A decoder that exceeds it trusted an unchecked length,
/// and the target aborts. A valid chunk may declare 64 MiB and is briefly held twice.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::feed($name, bytes));
    };
}
