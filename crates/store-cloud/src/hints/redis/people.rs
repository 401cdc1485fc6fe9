//! Inboxes, routes and pending rows of users.

use ::redis::Value;
use bluetick_core::{ConversationId, InboxFilter, InboxKey, InboxSection, Timestamp, UserId};

use super::{RedisHints, fresh_name};
use crate::NodeId;
use crate::hints::{Away, Touched};
use crate::redis::call::{
    CONNECT, Call, FILL, INBOX, PENDING, SHELVE, TOUCH, bytes, list, number, odd, text,
};

/// How long an inbox is kept that nobody reads or writes to.
const INBOX_SECONDS: u64 = 7 * 24 * 60 * 60;
/// How long a flag is kept. Without it the row is written once more.
const PENDING_SECONDS: u64 = 7 * 24 * 60 * 60;
const ROUTE_SECONDS: u64 = 60 * 60;
/// How many places go with one script: a server does nothing else while it runs.
const PART: usize = 500;
const ATTEMPTS: usize = 3;

/// As in `life.lua`: what lies between two shelves in the order of one sorted set.
const SHELF: i64 = 1 << 45;
/// Moments are kept exactly up to the year 2248.
const LATEST_MS: i64 = 1 << 43;

impl RedisHints {
    pub(super) async fn touch_all(
        &self,
        conversation: ConversationId,
        at: Option<Timestamp>,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away> {
        let calls = users.iter().map(|user| {
            let keys = self.keys.of_user(user);
            let call = Call::script(&TOUCH, &keys.routes)
                .key(&keys.inbox)
                .key(&keys.pending)
                .bytes(conversation.as_bytes());
            match at {
                Some(at) => call.number(moment(at)).number(INBOX_SECONDS),
                None => call.text(""),
            }
        });
        self.redis.run_all(calls.collect()).await?.iter().map(touched).collect()
    }

    pub(super) async fn note_pending(
        &self,
        user: &UserId,
        conversation: ConversationId,
        pending: bool,
    ) -> Result<(), Away> {
        let call = Call::script(&PENDING, &self.keys.of_user(user).pending)
            .bytes(conversation.as_bytes())
            .number(pending)
            .number(PENDING_SECONDS);
        self.redis.run(call).await?;
        Ok(())
    }

    pub(super) async fn put_on_shelf(
        &self,
        user: &UserId,
        conversation: ConversationId,
        place: Option<(InboxSection, Timestamp)>,
    ) -> Result<(), Away> {
        let call = Call::script(&SHELVE, &self.keys.of_user(user).inbox).bytes(conversation.as_bytes());
        let call = match place {
            Some((shelf, at)) => call.number(index(shelf)).number(moment(at)).number(INBOX_SECONDS),
            None => call.text(""),
        };
        self.redis.run(call).await?;
        Ok(())
    }

    pub(super) async fn inbox_page(
        &self,
        user: &UserId,
        filter: InboxFilter,
        after: Option<InboxKey>,
        limit: usize,
    ) -> Result<Option<Vec<InboxKey>>, Away> {
        let (first, last) = match filter {
            InboxFilter::All => (InboxSection::Pinned, InboxSection::Archived),
            InboxFilter::Archived => (InboxSection::Archived, InboxSection::Archived),
            InboxFilter::NotArchived => (InboxSection::Pinned, InboxSection::Ordinary),
        };
        let mut call = Call::script(&INBOX, &self.keys.of_user(user).inbox)
            .number(index(first))
            .number(index(last))
            .number(limit as u64)
            .number(INBOX_SECONDS);
        if let Some(after) = after {
            call = call.number(index(after.shelf)).number(moment(after.last_at)).bytes(after.id.as_bytes());
        }
        let answer = self.redis.run(call).await?;
        if answer == Value::Nil {
            return Ok(None);
        }
        list(&answer)?.chunks(2).map(place).collect::<Result<_, _>>().map(Some)
    }

    pub(super) async fn fill(&self, user: &UserId, places: &[InboxKey]) -> Result<(), Away> {
        for _ in 0..ATTEMPTS {
            if self.fill_in_parts(user, places).await? {
                return Ok(());
            }
        }
        Err(Away("what was filled in got lost on the way".to_owned()))
    }

    /// False when an earlier part was lost before the last one came.
    async fn fill_in_parts(&self, user: &UserId, places: &[InboxKey]) -> Result<bool, Away> {
        let inbox = self.keys.of_user(user).inbox;
        let name = fresh_name();
        let parts = places.len().div_ceil(PART).max(1);
        for part in 0..parts {
            let mut call = Call::script(&FILL, &inbox)
                .number(part == 0)
                .number(part + 1 == parts)
                .text(&name)
                .number(INBOX_SECONDS);
            for place in places.chunks(PART).nth(part).unwrap_or_default() {
                call =
                    call.bytes(place.id.as_bytes()).number(index(place.shelf)).number(moment(place.last_at));
            }
            if number(&self.redis.run(call).await?)? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) async fn add_route(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        let keys = self.keys.of_user(user);
        let call = Call::script(&CONNECT, &keys.routes).text(node.as_str()).number(ROUTE_SECONDS);
        self.redis.run(call).await?;
        Ok(())
    }

    pub(super) async fn remove_route(&self, user: &UserId, node: &NodeId) -> Result<(), Away> {
        let keys = self.keys.of_user(user);
        self.redis.run(Call::command("HDEL", &keys.routes).text(node.as_str())).await?;
        Ok(())
    }
}

fn touched(answer: &Value) -> Result<Touched, Away> {
    let [pending, nodes] = list(answer)? else { return Err(odd()) };
    let mut nodes: Vec<_> =
        list(nodes)?.iter().map(|node| text(node).map(NodeId::new)).collect::<Result<_, _>>()?;
    nodes.sort();
    Ok(Touched { nodes, pending: number(pending)? == 1 })
}

fn index(shelf: InboxSection) -> u64 {
    match shelf {
        InboxSection::Pinned => 0,
        InboxSection::Ordinary => 1,
        InboxSection::Archived => 2,
    }
}

fn moment(at: Timestamp) -> i64 {
    at.millis().clamp(-LATEST_MS, LATEST_MS)
}

/// A member of the sorted set and its score.
fn place(pair: &[Value]) -> Result<InboxKey, Away> {
    let [id, score] = pair else { return Err(odd()) };
    let id = bytes(id)?.try_into().ok().and_then(ConversationId::from_bytes).ok_or_else(odd)?;
    let score = number(score)?;
    let shelf = (score + SHELF / 2).div_euclid(SHELF);
    let last_at = Timestamp::from_millis(shelf * SHELF - score);
    let shelf = usize::try_from(shelf).ok().and_then(|index| InboxSection::ALL.get(index)).ok_or_else(odd)?;
    Ok(InboxKey { shelf: *shelf, last_at, id })
}
