//! A load of many devices: users and conversations, concurrent devices, and the final check.
//! Faults of the servers belong to each test.

mod final_check;
mod membership_changes;
mod scene;
mod sizes;

use tokio::task::JoinSet;

pub use final_check::{Judge, ReadStatesByConversation};
pub use membership_changes::{ChurningMember, comings_and_goings};
pub use scene::{GroupPlan, Scene};
pub use sizes::Sizes;

use crate::device::{Device, ViolationReport};

/// The admin key of every server under test.
pub const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";

/// Runs all futures concurrently and returns the devices sorted by name. After all have ended,
/// panics if there was a violation.
pub async fn together<Life>(lives: Vec<Life>) -> Vec<Device>
where
    Life: Future<Output = (Device, Option<ViolationReport>)> + Send + 'static,
{
    let mut lives: JoinSet<_> = lives.into_iter().collect();
    let (mut devices, mut violations) = (Vec::new(), Vec::new());
    while let Some(ended) = lives.join_next().await {
        let (device, violation) = ended.unwrap();
        devices.push(device);
        violations.extend(violation);
    }
    let list: Vec<String> = violations.iter().map(ViolationReport::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", list.len(), list.join("\n"));
    devices.sort_by(|one, other| one.identity.name.cmp(&other.identity.name));
    devices
}

/// Sends the outbox of every device.
pub async fn flush(devices: Vec<Device>, address: &str) -> Vec<Device> {
    together(devices.into_iter().map(|device| flushed(device, address.to_owned())).collect()).await
}

/// Reconnects every device after all traffic has ended, to fetch everything missing.
pub async fn settle(devices: Vec<Device>, address: &str) -> Vec<Device> {
    together(devices.into_iter().map(|device| settled(device, address.to_owned())).collect()).await
}

async fn flushed(device: Device, address: String) -> (Device, Option<ViolationReport>) {
    device.flush(&address).await
}

async fn settled(device: Device, address: String) -> (Device, Option<ViolationReport>) {
    device.settle(&address).await
}

/// Sends three more messages in every conversation, preferably by an eager reader, so that lazy
/// readers have unread messages.
pub async fn last_words(mut devices: Vec<Device>, scene: &Scene, address: &str) -> Vec<Device> {
    let judge = Judge::new(scene, address).await;
    for (conversation, thread) in &judge.threads {
        let is_in = |device: &&mut Device| thread.members.contains_key(&device.identity.user);
        let mut speakers: Vec<&mut Device> = devices.iter_mut().filter(is_in).collect();
        speakers.sort_by_key(|device| scene.lazy.contains(&device.identity.user));
        for _ in 0..3 {
            speakers[0].write(conversation);
        }
    }
    flush(devices, address).await
}
