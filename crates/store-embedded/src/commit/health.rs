//! Whether the store accepts writes. Checking a healthy store costs one atomic load.

use std::sync::atomic::{AtomicBool, Ordering};

use bluetick_core::StoreError;
use bluetick_core::ports::Health;
use parking_lot::Mutex;

#[derive(Default)]
pub struct HealthState {
    refusing: AtomicBool,
    /// Set when only a restart can make the store writable again.
    broken: AtomicBool,
    reason: Mutex<String>,
}

impl HealthState {
    pub fn check(&self) -> Result<(), StoreError> {
        if !self.refusing.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(StoreError::ReadOnly(self.reason().into()))
    }

    pub fn health(&self) -> Health {
        if self.refusing.load(Ordering::Acquire) { Health::ReadOnly(self.reason()) } else { Health::Writable }
    }

    fn reason(&self) -> String {
        self.reason.lock().clone()
    }

    /// Switches to read-only and stores the reason. Logs only the transition.
    pub fn refuse(&self, reason: &str) {
        reason.clone_into(&mut self.reason.lock());
        if !self.refusing.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, "store is read-only; reads continue");
        }
    }

    /// Switches to read-only for the rest of the process; `recover` has no effect afterwards.
    pub fn break_down(&self, reason: &str) {
        self.broken.store(true, Ordering::Release);
        self.refuse(reason);
    }

    /// Switches back to writable, unless the store is broken. Logs only the transition.
    pub fn recover(&self) {
        if self.broken.load(Ordering::Acquire) {
            return;
        }
        if self.refusing.swap(false, Ordering::AcqRel) {
            tracing::info!("store accepts writes again");
        }
    }
}
