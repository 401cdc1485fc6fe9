//! Whether the store takes writes, for everybody to see at no cost.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bluetick_core::StoreError;
use bluetick_core::ports::Health;

#[derive(Default)]
pub struct HealthState {
    refusing: AtomicBool,
    /// Only a restart helps.
    broken: AtomicBool,
    reason: Mutex<String>,
}

impl HealthState {
    pub fn check(&self) -> Result<(), StoreError> {
        if !self.refusing.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(StoreError::ReadOnly(self.reason()))
    }

    pub fn health(&self) -> Health {
        if self.refusing.load(Ordering::Acquire) { Health::ReadOnly(self.reason()) } else { Health::Writable }
    }

    fn reason(&self) -> String {
        self.reason.lock().expect("nobody panics while holding the reason").clone()
    }

    /// Says once that writing stopped.
    pub fn refuse(&self, reason: &str) {
        reason.clone_into(&mut self.reason.lock().expect("nobody panics while holding the reason"));
        if !self.refusing.swap(true, Ordering::AcqRel) {
            tracing::error!(reason, "the store refuses writes until the disk takes them again; reads go on");
        }
    }

    /// Says that nothing will be written any more in this life of the process.
    pub fn break_down(&self, reason: &str) {
        self.broken.store(true, Ordering::Release);
        self.refuse(reason);
    }

    /// Says once that writing goes on.
    pub fn recover(&self) {
        if self.broken.load(Ordering::Acquire) {
            return;
        }
        if self.refusing.swap(false, Ordering::AcqRel) {
            tracing::info!("the store writes again");
        }
    }
}
