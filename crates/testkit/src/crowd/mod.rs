//! Many devices at once: who there is and who talks with whom, all of them living their lives side by side, and the
//! judgement over what they saw. What happens to the servers meanwhile belongs to each test.

mod comings;
mod judge;
mod scene;
mod sizes;

use tokio::task::JoinSet;

pub use comings::{Change, comings_and_goings};
pub use judge::{Judge, Standing};
pub use scene::{Plan, Scene};
pub use sizes::Sizes;

use crate::device::{Device, Violation};

/// Of every server that a crowd talks to.
pub const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";

/// All of them at once; whoever has something to complain about ends the test.
pub async fn together<Life>(lives: Vec<Life>) -> Vec<Device>
where
    Life: Future<Output = (Device, Option<Violation>)> + Send + 'static,
{
    let mut lives: JoinSet<_> = lives.into_iter().collect();
    let (mut devices, mut violations) = (Vec::new(), Vec::new());
    while let Some(ended) = lives.join_next().await {
        let (device, violation) = ended.unwrap();
        devices.push(device);
        violations.extend(violation);
    }
    let list: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", list.len(), list.join("\n"));
    devices.sort_by(|one, other| one.identity.name.cmp(&other.identity.name));
    devices
}

/// Everybody sends what is left in its outbox.
pub async fn flush(devices: Vec<Device>, address: &str) -> Vec<Device> {
    together(devices.into_iter().map(|device| flushed(device, address.to_owned())).collect()).await
}

/// Everybody comes back once more, now that nothing happens, and gets what it misses.
pub async fn settle(devices: Vec<Device>, address: &str) -> Vec<Device> {
    together(devices.into_iter().map(|device| settled(device, address.to_owned())).collect()).await
}

async fn flushed(device: Device, address: String) -> (Device, Option<Violation>) {
    device.flush(&address).await
}

async fn settled(device: Device, address: String) -> (Device, Option<Violation>) {
    device.settle(&address).await
}

/// After this everybody who leaves things unread has some: somebody else says something in every conversation.
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
