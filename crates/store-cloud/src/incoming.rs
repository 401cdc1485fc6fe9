//! News from other nodes, told to the people connected here as this node's own are.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::{CommittedChange, Ephemeral};
use bluetick_core::{ConversationId, Seq, StoreError, UserId};
use tokio::time::sleep;

use crate::engine::Engine;
use crate::memberships::Known;
use crate::neighbours::News;
use crate::news::{CellNews, Item};
use crate::revoked::read_revocations;
use crate::rooms::Arrival;

pub(crate) async fn run(engine: Arc<Engine>) {
    loop {
        match engine.neighbours.receive().await {
            Ok(all) => {
                for news in all {
                    engine.hear(news).await;
                }
            }
            Err(away) => {
                tracing::debug!(%away, "no news from other nodes");
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

impl Engine {
    async fn hear(self: &Arc<Engine>, news: News) {
        let bytes = match news {
            News::From(_, bytes) => bytes,
            News::Lost => return self.hear_that_news_were_lost(),
        };
        let items: Vec<serde_json::Value> = match serde_json::from_slice(&bytes) {
            Ok(items) => items,
            Err(_) => return tracing::warn!("news from another node could not be read"),
        };
        for item in items {
            self.counters.news_received.add(1);
            // What a newer version sends besides is not for this one.
            let Ok(item) = serde_json::from_value::<Item>(item) else { continue };
            if let Err(error) = self.hear_item(item).await {
                tracing::warn!(%error, "news from another node could not be passed on; it is looked for later");
                self.repair.notify_one();
            }
        }
    }

    fn hear_that_news_were_lost(&self) {
        tracing::info!("news from other nodes were lost; everybody connected here is checked");
        self.local.trouble();
        self.mending.say_who_is_here();
        self.repair.notify_one();
    }

    async fn hear_item(self: &Arc<Engine>, item: Item) -> Result<(), StoreError> {
        match item {
            Item::Cell(news) => self.hear_cell(&news).await,
            Item::Moved(news) => {
                let Some(id) = news.conversation() else { return Ok(()) };
                let known = self.known_at(id, news.members_version).await?;
                if let Some(moved) = news.moved(Arc::clone(&known.members)) {
                    self.member_states.heard(&moved);
                    self.hear_moved(moved).await;
                }
                Ok(())
            }
            Item::Joined { conversation, user } => {
                if let (Ok(conversation), Ok(user)) = (conversation.parse(), UserId::from_stored(&user)) {
                    self.listener.changed(vec![CommittedChange::Joined { conversation, user }]);
                }
                Ok(())
            }
            Item::Preferred { conversation, user } => {
                if let (Ok(conversation), Ok(user)) = (conversation.parse(), UserId::from_stored(&user)) {
                    self.listener.changed(vec![CommittedChange::PreferencesChanged { conversation, user }]);
                }
                Ok(())
            }
            Item::Revoked { user, void } => {
                if let Ok(user) = UserId::from_stored(&user) {
                    let revocations = read_revocations(&void);
                    self.listener.changed(vec![CommittedChange::Revoked { user, revocations }]);
                }
                Ok(())
            }
            Item::Missed => {
                self.hear_that_news_were_lost();
                Ok(())
            }
            Item::Typing { conversation, user } => {
                if let (Ok(conversation), Ok(user)) = (conversation.parse(), UserId::from_stored(&user)) {
                    let members = self.known(conversation).await?.members;
                    self.listener.received_ephemeral(Ephemeral::Typing { conversation, user, members });
                }
                Ok(())
            }
            Item::Presence(news) => {
                if let Ok(user) = UserId::from_stored(&news.user) {
                    let (profile, to) = (news.profile(), news.to());
                    self.listener.received_ephemeral(Ephemeral::Presence {
                        user,
                        online: news.online,
                        profile,
                        to,
                    });
                }
                Ok(())
            }
        }
    }

    /// The members at this version or a later one.
    async fn known_at(&self, id: ConversationId, version: u64) -> Result<Known, StoreError> {
        match self.memberships.get(id) {
            Some(known) if known.version >= version => Ok(known),
            _ => self.known_now(id).await,
        }
    }

    async fn hear_cell(self: &Arc<Engine>, news: &CellNews) -> Result<(), StoreError> {
        let Some(cell) = news.cell() else { return Ok(()) };
        let (id, seq) = (cell.message.conversation, cell.seq());
        let known = self.known_at(id, news.members_version).await?;
        // Whoever sent this counted on their being here: what they miss is owed to them.
        let mut relied = match news.to.is_empty() {
            // Nobody knew where anybody is.
            true => self.relied_upon_here(&known, Some(&cell.message.sender)),
            false => Vec::new(),
        };
        for user in news.to.iter().filter_map(|user| UserId::from_stored(user).ok()) {
            if user == cell.message.sender || !known.members.contains(&user) {
                continue;
            }
            if self.local.is_here(&user) {
                relied.push(user);
            } else {
                self.owe(user, id, seq).await?;
            }
        }
        let departed_is_here = cell.departed.as_ref().is_some_and(|user| self.local.is_here(user));
        let somebody_is_here = known.members.iter().any(|member| self.local.is_here(&member.user));
        if somebody_is_here || departed_is_here {
            self.arrive(Seq::new(news.settled), vec![Arrival { cell, known, relied }]);
        }
        Ok(())
    }
}
