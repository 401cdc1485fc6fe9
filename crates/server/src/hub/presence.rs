//! Who comes and goes, told to those they talk with. Never stored with messages, and the first to be dropped when there
//! is too much to do. When somebody was last here is written by the connection that ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::chat::ChatError;
use bluetick_core::{Chat, InboxFilter, InboxRequest, PageLimit, UserId};
use bluetick_wire::frame::encode_presence;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Frame, Sessions, guarded};
use crate::metrics::{Dropped, Metrics};

/// Changes that may wait to be announced. Full: dropped, and whoever wants to know asks.
pub(super) const WAITING_CHANGES: usize = 1_024;

/// Somebody who is back within this time was never gone.
const RETURNING: Duration = Duration::from_secs(2);

/// At most one announcement in this time, so that a crowd that comes back does not keep the store from its work.
const PACE: Duration = Duration::from_millis(2);

/// People whose return is waited for.
const MOST_LEAVING: usize = 65_536;

#[derive(Debug)]
pub(super) enum PresenceChange {
    Came(UserId),
    Went(UserId),
    /// The user has switched between showing and hiding.
    Switched(UserId),
}

pub(super) struct Announcer {
    changes: mpsc::Receiver<PresenceChange>,
    sessions: Arc<Sessions>,
    chat: Chat,
    metrics: Arc<Metrics>,
    /// Who has left, in that order, and when to say so.
    leaving: VecDeque<(Instant, UserId)>,
    /// The entries of `leaving` that still count.
    due: HashMap<UserId, Instant>,
}

impl Announcer {
    pub fn new(
        changes: mpsc::Receiver<PresenceChange>,
        sessions: Arc<Sessions>,
        chat: Chat,
        metrics: Arc<Metrics>,
    ) -> Announcer {
        Announcer { changes, sessions, chat, metrics, leaving: VecDeque::new(), due: HashMap::new() }
    }

    pub async fn run(mut self) {
        loop {
            let next = self.leaving.front().map(|(at, _)| *at);
            let returning = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let (user, switched) = tokio::select! {
                change = self.changes.recv() => match change {
                    Some(change) => match self.heard(change) {
                        Some(news) => news,
                        None => continue,
                    },
                    None => return,
                },
                () = returning => match self.gone() {
                    Some(user) => (user, false),
                    None => continue,
                },
            };
            guarded("presence", async {
                if let Err(error) = self.announce(&user, switched).await {
                    tracing::debug!(%user, %error, "a coming or going could not be announced");
                }
            })
            .await;
            sleep(PACE).await;
        }
    }

    /// Whom to announce at once, if anybody, and whether that is because they have switched.
    fn heard(&mut self, change: PresenceChange) -> Option<(UserId, bool)> {
        match change {
            PresenceChange::Came(user) => {
                let is_there = self.sessions.is_online(&user);
                // Of somebody who is back in time nobody has heard that it was away.
                let was_away = is_there && self.due.remove(&user).is_none();
                was_away.then_some((user, false))
            }
            PresenceChange::Went(user) => {
                if self.leaving.len() >= MOST_LEAVING {
                    self.metrics.dropped(Dropped::Presence, 1);
                    return None;
                }
                let at = Instant::now() + RETURNING;
                self.due.insert(user.clone(), at);
                self.leaving.push_back((at, user));
                None
            }
            PresenceChange::Switched(user) => Some((user, true)),
        }
    }

    /// The one whose time to return is over, if it has not.
    fn gone(&mut self) -> Option<UserId> {
        let (at, user) = self.leaving.pop_front()?;
        if self.due.get(&user) != Some(&at) {
            return None;
        }
        self.due.remove(&user);
        (!self.sessions.is_online(&user)).then_some(user)
    }

    /// Tells the people of the user's latest direct conversations how things are now.
    async fn announce(&self, user: &UserId, switched: bool) -> Result<(), ChatError> {
        let profile = self.chat.profile(user).await?;
        if profile.hides_presence && !switched {
            return Ok(());
        }
        let request =
            InboxRequest { user: user.clone(), after: None, limit: PageLimit::MAX, filter: InboxFilter::All };
        let inbox = self.chat.inbox(request).await?;
        let frame = Frame::from(encode_presence(user, self.sessions.is_online(user), profile));
        let (mut pushes, mut dropped) = (0, 0);
        for peer in inbox.entries.iter().filter_map(|entry| entry.peer.as_ref()) {
            self.sessions.each_of(peer, &mut |session| match session.outbox.push_ephemeral(frame.clone()) {
                true => pushes += 1,
                false => dropped += 1,
            });
        }
        self.metrics.pushes.inc_by(pushes);
        self.metrics.dropped(Dropped::Ephemeral, dropped);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::chat::ChatRules;
    use bluetick_core::ports::{Store, SystemRandom};
    use bluetick_core::time::SystemClock;
    use bluetick_core::{ProfileUpdate, Timestamp};
    use bluetick_store_memory::MemoryStore;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::hub::{Batch, Hub, Outbox, Session};

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    async fn heard(session: &Session) -> Vec<String> {
        session.outbox.pushed().await;
        let Batch::Frames(frames) = session.outbox.take(usize::MAX) else { panic!("something was pushed") };
        frames.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn whoever_switches_to_hiding_is_gone_for_the_others_and_comes_back_when_it_switches_again() {
        let hub = Hub::new(Metrics::new());
        let store = Arc::new(MemoryStore::with_listener(hub.clone()));
        let chat =
            Chat::new(store.clone(), Arc::new(SystemClock), Arc::new(SystemRandom), ChatRules::default());
        chat.open_direct(&user("alice"), user("bob")).await.unwrap();
        hub.flush().await;
        let [phone, _tablet] = ["alice", "bob"].map(|name| {
            let outbox = Outbox::new(1 << 20, Gauge::default());
            let sessions = hub.sessions();
            sessions.register(sessions.next_id(), user(name), outbox, usize::MAX).unwrap()
        });
        let mut workers = hub.start_workers(&chat);
        for (hides, online) in [(true, false), (false, true)] {
            let last_seen_at = Some(Timestamp::from_millis(5));
            let update = ProfileUpdate { user: user("bob"), last_seen_at, hides_presence: Some(hides) };
            store.update_profile(update).await.unwrap();
            hub.presence_changed(&user("bob"));
            let frame = encode_presence(&user("bob"), online, Default::default());
            assert_eq!(heard(&phone.session).await, [frame]);
        }
        workers.stop().await;
    }

    #[test]
    fn when_too_many_come_at_once_the_rest_is_dropped_and_counted() {
        let metrics = Metrics::new();
        let hub = Hub::new(Arc::clone(&metrics));
        for number in 0..WAITING_CHANGES + 3 {
            hub.came(&user(&format!("user{number}")));
        }
        let text = metrics.encode(&Default::default());
        assert!(text.contains(r#"bluetick_drops_total{what="presence_change"} 3"#), "{text}");
    }
}
