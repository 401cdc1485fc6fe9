//! Counts heap allocations per message on all threads of the server: from the received frame to the
//! ack and the receivers' sockets, on the embedded store with its log and syncs.
//!
//! Allocation counts are the same in every build profile, so an ordinary `cargo test` checks them.
//! This file has one test, because the global allocator counts for all tests.

use std::alloc::System;

use bluetick_costs::Path;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

/// Counts the allocations of the whole process.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the number of allocations and reallocations per message, delivery or page.
fn allocations(path: Path) -> f64 {
    let mut rehearsed = path.rehearse();
    let region = Region::new(ALLOCATOR);
    rehearsed.perform();
    let change = region.change();
    let each = (change.allocations + change.reallocations) as f64 / rehearsed.units() as f64;
    rehearsed.end();
    each
}

/// Upper bound on measured runs per path. The number of frames per batch depends on the machine's
/// load, and frames share the allocations of their batch. A run above its ceiling is therefore
/// repeated.
const ATTEMPTS: usize = 3;

#[test]
fn send_delivery_and_page_stay_below_their_allocation_ceilings() {
    let ceilings = [
        // Measured 9.9: the received frame and its record, a reply channel, and the frames to two
        // clients.
        (Path::Send, 12.5),
        // Measured 0.23, which is 11 per 49 receivers: the frame is encoded once and shared.
        (Path::Deliver, 0.29),
        // Measured 74 for twenty messages.
        (Path::History, 93.0),
    ];
    for (path, ceiling) in ceilings {
        let mut counts = (0..ATTEMPTS).map(|_| allocations(path)).inspect(|counted| {
            println!("{}: {counted:.2} allocations a {}", path.name(), path.unit());
        });
        let counted = counts.find(|counted| *counted < ceiling);
        let counted =
            counted.unwrap_or_else(|| panic!("{}: a {} takes more than {ceiling}", path.name(), path.unit()));
        assert!(counted > ceiling / 10.0, "{}: {counted:.2}; is anything counted?", path.name());
    }
}
