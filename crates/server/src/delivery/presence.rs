//! Announces presence to the peers of a user. Presence is ephemeral: it is not stored with
//! messages, and it is dropped first under load. The connections, not this worker, store
//! `last_seen_at`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::chat::ChatError;
use bluetick_core::ports::Ephemeral;
use bluetick_core::{Chat, InboxEntry, InboxFilter, InboxRequest, PageLimit, UserId};
use bluetick_wire::frame::encode_presence;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::{EncodedFrame, PresenceDirectory, Sessions, catch_panics};
use crate::metrics::{Dropped, Metrics};

/// Capacity of the queue of presence changes. Changes beyond it are dropped; clients can query the
/// presence.
pub(super) const QUEUED_CHANGES: usize = 1_024;

/// Grace period in which a disconnected user may reconnect without being announced as offline. A
/// shorter one announces every brief network loss; a longer one shows users as online for too long.
const OFFLINE_GRACE: Duration = Duration::from_secs(2);

/// Pause after each announcement, so that a reconnect storm does not overload the store. A longer
/// pause delays presence.
const ANNOUNCEMENT_PAUSE: Duration = Duration::from_millis(2);

/// Maximum number of entries in `leaving`, which bounds memory. Beyond it, disconnects are not
/// announced.
const MAX_LEAVING: usize = 65_536;

/// A presence change that a connection or a profile update reports.
#[derive(Debug)]
pub(super) enum PresenceChange {
    Connected(UserId),
    Disconnected(UserId),
    /// The user switched between showing and hiding its presence.
    VisibilityChanged(UserId),
}

/// A change of presence to announce about a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PresenceNotice {
    Online,
    /// Announced only if the user is not connected to any node.
    Offline,
    VisibilityChanged,
}

/// The worker that announces presence changes.
pub(super) struct PresencePublisher {
    changes: mpsc::Receiver<PresenceChange>,
    sessions: Arc<Sessions>,
    presence_directory: PresenceDirectory,
    chat: Chat,
    metrics: Arc<Metrics>,
    /// The disconnected users in order of disconnection, with the end of their grace period.
    leaving: VecDeque<(Instant, UserId)>,
    /// The entries of `leaving` that are still valid.
    due: HashMap<UserId, Instant>,
}

impl PresencePublisher {
    pub fn new(
        changes: mpsc::Receiver<PresenceChange>,
        sessions: Arc<Sessions>,
        presence_directory: PresenceDirectory,
        chat: Chat,
        metrics: Arc<Metrics>,
    ) -> PresencePublisher {
        let (leaving, due) = (VecDeque::new(), HashMap::new());
        PresencePublisher { changes, sessions, presence_directory, chat, metrics, leaving, due }
    }

    pub async fn run(mut self) {
        loop {
            let next = self.leaving.front().map(|(at, _)| *at);
            let grace_ended = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let (user, notice) = tokio::select! {
                change = self.changes.recv() => match change {
                    Some(change) => match self.next_notice(change) {
                        Some(notice) => notice,
                        None => continue,
                    },
                    None => return,
                },
                () = grace_ended => match self.take_offline_user() {
                    Some(user) => (user, PresenceNotice::Offline),
                    None => continue,
                },
            };
            catch_panics("presence", async {
                if let Err(error) = self.announce(&user, notice).await {
                    tracing::debug!(%user, %error, "presence announcement failed");
                }
            })
            .await;
            sleep(ANNOUNCEMENT_PAUSE).await;
        }
    }

    /// Handles a change. Returns the announcement to make immediately, if any.
    fn next_notice(&mut self, change: PresenceChange) -> Option<(UserId, PresenceNotice)> {
        match change {
            PresenceChange::Connected(user) => {
                let is_connected = self.sessions.is_online(&user);
                // A user who reconnects within the grace period was never announced as offline.
                let was_offline = is_connected && self.due.remove(&user).is_none();
                was_offline.then_some((user, PresenceNotice::Online))
            }
            PresenceChange::Disconnected(user) => {
                if self.leaving.len() >= MAX_LEAVING {
                    self.metrics.dropped(Dropped::Presence, 1);
                    return None;
                }
                let at = Instant::now() + OFFLINE_GRACE;
                self.due.insert(user.clone(), at);
                self.leaving.push_back((at, user));
                None
            }
            PresenceChange::VisibilityChanged(user) => Some((user, PresenceNotice::VisibilityChanged)),
        }
    }

    /// Removes the first user from `leaving`. Returns it if it has not reconnected.
    fn take_offline_user(&mut self) -> Option<UserId> {
        let (at, user) = self.leaving.pop_front()?;
        if self.due.get(&user) != Some(&at) {
            return None;
        }
        self.due.remove(&user);
        (!self.sessions.is_online(&user)).then_some(user)
    }

    /// Announces the user's current presence to the peers of its latest direct conversations.
    async fn announce(&self, user: &UserId, notice: PresenceNotice) -> Result<(), ChatError> {
        let online = self.presence_directory.is_online(user).await;
        if notice == PresenceNotice::Offline && online {
            return Ok(());
        }
        let profile = self.chat.profile(user).await?;
        if profile.hides_presence && notice != PresenceNotice::VisibilityChanged {
            return Ok(());
        }
        let request =
            InboxRequest { user: user.clone(), after: None, limit: PageLimit::MAX, filter: InboxFilter::All };
        let inbox = self.chat.inbox(request).await?;
        // Do not reveal the conversation to a user whose inbox does not list it.
        let peer = |entry: InboxEntry| entry.peer.clone().filter(|peer| entry.is_listed_for(peer));
        let to: Vec<UserId> = inbox.entries.into_iter().filter_map(peer).collect();
        push_presence(&self.sessions, &self.metrics, &to, encode_presence(user, online, &profile));
        self.presence_directory.send_ephemeral(Ephemeral::Presence {
            user: user.clone(),
            online,
            profile,
            to,
        });
        Ok(())
    }
}

/// Pushes a presence frame to those of these users who are connected to this node.
pub(super) fn push_presence(sessions: &Sessions, metrics: &Metrics, to: &[UserId], frame: String) {
    let frame = EncodedFrame::from(frame);
    let (mut pushes, mut dropped) = (0, 0);
    for user in to {
        sessions.each_of(user, &mut |session| match session.outbox.push_ephemeral(frame.clone()) {
            true => pushes += 1,
            false => dropped += 1,
        });
    }
    metrics.pushes.inc_by(pushes);
    metrics.dropped(Dropped::Ephemeral, dropped);
}

#[cfg(test)]
mod tests {
    use bluetick_core::chat::{ChatRules, SendRequest};
    use bluetick_core::ports::{NoFleet, Store, SystemRandom};
    use bluetick_core::time::SystemClock;
    use bluetick_core::{ContentType, ProfileUpdate, Timestamp, TokenFacts};
    use bluetick_store_memory::MemoryStore;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::delivery::{ConnectionOutbox, Hub, WebSocketSession};

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    async fn received(session: &WebSocketSession) -> Vec<String> {
        session.outbox.pushed().await;
        let frames = session.outbox.taken();
        frames.iter().map(|frame| frame.text().to_owned()).collect()
    }

    #[tokio::test]
    async fn hiding_presence_announces_offline_and_showing_it_announces_online() {
        let hub = Hub::new(Metrics::new());
        let store = Arc::new(MemoryStore::with_listener(hub.clone()));
        let chat =
            Chat::new(store.clone(), Arc::new(SystemClock), Arc::new(SystemRandom), ChatRules::default());
        let opened = chat.open_direct(&user("alice"), user("bob")).await.unwrap();
        let first = SendRequest {
            conversation: opened.view.conversation.id,
            message_id: "m1".parse().unwrap(),
            content_type: ContentType::Text,
            content: "hello".into(),
            timestamp: None,
            retry_after: None,
            origin: None,
        };
        chat.send(&user("alice"), first).await.unwrap();
        hub.flush().await;
        let [phone, _tablet] = ["alice", "bob"].map(|name| {
            let outbox = ConnectionOutbox::new(1 << 20, Gauge::default());
            let sessions = hub.sessions();
            sessions
                .register(sessions.next_id(), user(name), TokenFacts::default(), outbox, usize::MAX)
                .unwrap()
        });
        let mut workers = hub.start_workers(&chat, &hub.presence_directory(Arc::new(NoFleet)));
        for (hides, online) in [(true, false), (false, true)] {
            let last_seen_at = Some(Timestamp::from_millis(5));
            let update =
                ProfileUpdate { last_seen_at, hides_presence: Some(hides), ..ProfileUpdate::of(user("bob")) };
            store.update_profile(update).await.unwrap();
            hub.presence_changed(&user("bob"));
            let frame = encode_presence(&user("bob"), online, &Default::default());
            assert_eq!(received(&phone.session).await, [frame]);
        }
        workers.stop().await;
    }

    #[test]
    fn presence_changes_above_the_queue_are_dropped_and_counted() {
        let metrics = Metrics::new();
        let hub = Hub::new(Arc::clone(&metrics));
        for number in 0..QUEUED_CHANGES + 3 {
            hub.user_connected(&user(&format!("user{number}")));
        }
        let text = metrics.encode(&Default::default(), None);
        assert!(text.contains(r#"bluetick_drops_total{what="presence_change"} 3"#), "{text}");
    }
}
