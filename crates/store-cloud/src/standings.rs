//! How far each member has come.
//!
//! A member's own messages move its read state too. That is not written with every message: the messages say it. A
//! status row has been told of the member's own messages up to its `sent`; the rest is replayed when the row is read
//! ([`Engine::standings_of`]), and written back once in a while ([`flush`](crate::flush)) or when it is news to somebody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::ports::{CommittedChange, Origin, ReadStateMoved, Receipt};
use bluetick_core::{
    ConversationId, Member, MemberState, Preferences, ReadState, Refusal, Seq, StoreError, UserId,
};
use tokio::time::{Instant, sleep};

use crate::append::{LOOKS, RECENT};
use crate::engine::Engine;
use crate::keyed::OneAtATime;
use crate::looked_after::LookedAfter;
use crate::memberships::{Known, RoomRow, decode_member};
use crate::rows::{Item, Key, Only, Table, Written};

pub(crate) type Whose = (ConversationId, UserId);

#[derive(Default)]
pub(crate) struct Standings {
    cached: Mutex<HashMap<Whose, Cached>>,
    /// How many are unread, of those who were counted before: from where, up to where, how many.
    pub counted: Mutex<HashMap<Whose, (Seq, Seq, u64)>>,
    pub large: Mutex<HashMap<ConversationId, Everybody>>,
    pub one_at_a_time: OneAtATime<Whose>,
    looked_after: LookedAfter<Whose>,
}

/// A status row as it was last seen or written here, and what is not written yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    pub member_state: MemberState,
    /// Of the row; 0 where there is none.
    pub version: u64,
    /// The joining it belongs to.
    pub joined: Seq,
}

#[derive(Clone, Copy)]
struct Cached {
    loaded: Loaded,
    is_dirty: bool,
}

/// The member states of a large group, which are not read one by one each time.
pub(crate) struct Everybody {
    pub version: u64,
    pub read_at: Instant,
    pub member_states: Arc<HashMap<UserId, MemberState>>,
}

/// What other nodes have written may be this old, in a large group.
pub(crate) const LARGE_GROUP_AGE: Duration = Duration::from_secs(1);
/// So long after an outage Redis may not know everything that was stored meanwhile. By then somebody has met it.
const UNTOLD: Duration = Duration::from_secs(60);
pub(crate) const MOST_CACHED: usize = 200_000;

impl Standings {
    fn cached(&self) -> MutexGuard<'_, HashMap<Whose, Cached>> {
        self.cached.lock().expect("nothing panics while it holds the lock")
    }

    fn keep(&self, whose: Whose, loaded: Loaded, is_dirty: bool) {
        if let Some(everybody) = self.large.lock().expect("no panic under the lock").get_mut(&whose.0) {
            Arc::make_mut(&mut everybody.member_states).insert(whose.1.clone(), loaded.member_state);
        }
        let mut cached = self.cached();
        if cached.len() >= MOST_CACHED {
            cached.retain(|_, cached| cached.is_dirty);
        }
        cached.insert(whose, Cached { loaded, is_dirty });
    }

    /// A row that was just written.
    pub fn kept(&self, whose: Whose, loaded: Loaded) {
        self.keep(whose, loaded, false);
    }

    pub fn forget(&self, whose: &Whose) {
        self.cached().remove(whose);
        self.counted.lock().expect("no panic under the lock").remove(whose);
        self.large.lock().expect("no panic under the lock").remove(&whose.0);
    }

    /// What is not written yet.
    pub fn dirty(&self) -> Vec<Whose> {
        self.cached().iter().filter(|(_, cached)| cached.is_dirty).map(|(whose, _)| whose.clone()).collect()
    }

    /// Another node has moved somebody's read state.
    pub fn heard(&self, moved: &ReadStateMoved) {
        let mut large = self.large.lock().expect("no panic under the lock");
        if let Some(everybody) = large.get_mut(&moved.conversation) {
            let member_state =
                Arc::make_mut(&mut everybody.member_states).entry(moved.user.clone()).or_default();
            member_state.delivered = member_state.delivered.max(moved.own.delivered);
            member_state.read = member_state.read.max(moved.own.read);
            if let Some(shown) = moved.shown {
                member_state.shown_read = member_state.shown_read.max(shown.read);
            }
        }
    }
}

pub(crate) fn status_item(member_state: &MemberState, version: u64) -> Item {
    Item::new()
        .count("last_delivered_seq", member_state.delivered.get())
        .count("last_read_seq", member_state.read.get())
        .count("shown_read_seq", member_state.shown_read.get())
        .count("acknowledged_seq", member_state.acknowledged.get())
        .count("sent_seq", member_state.sent.get())
        .flag("hides_reads", member_state.preferences.hides_reads)
        .versioned(version)
}

/// What else the member set stands in the inbox row.
pub(crate) fn decode_status(item: &Item) -> MemberState {
    let seq = |name| Seq::new(item.find_count(name));
    MemberState {
        delivered: seq("last_delivered_seq"),
        read: seq("last_read_seq"),
        shown_read: seq("shown_read_seq"),
        acknowledged: seq("acknowledged_seq"),
        sent: seq("sent_seq"),
        preferences: Preferences { hides_reads: item.find_flag("hides_reads"), ..Preferences::default() },
    }
}

fn only(version: u64) -> Only {
    if version == 0 { Only::IfAbsent } else { Only::IfVersion(version) }
}

impl Engine {
    /// Where these members stand, their own messages up to `through` included.
    pub(crate) async fn standings_of(
        &self,
        id: ConversationId,
        members: &[Member],
        through: Seq,
    ) -> Result<Vec<Loaded>, StoreError> {
        let keys = members.iter().map(|member| (Table::MessageStatus, Key::text(&member.user, id)));
        let rows = self.rows.get_many(keys.collect()).await?;
        self.replayed(id, members, rows, through).await
    }

    /// The same, of status rows that have been read.
    pub(crate) async fn replayed(
        &self,
        id: ConversationId,
        members: &[Member],
        rows: Vec<Option<Item>>,
        through: Seq,
    ) -> Result<Vec<Loaded>, StoreError> {
        let users: Vec<_> = members.iter().map(|member| member.user.clone()).collect();
        let sent = self.last_sent(id, &users).await?;
        let mut all = Vec::with_capacity(members.len());
        // What each has to be told of: own messages above the first, up to the second.
        let mut untold: HashMap<&str, (usize, Seq, Seq)> = HashMap::new();
        for (index, (member, row)) in members.iter().zip(rows).enumerate() {
            let version = row.as_ref().map_or(0, Item::version);
            let member_state = row.as_ref().map(decode_status).unwrap_or_default();
            let joined = member.joined_seq;
            let (above, sent) = (member_state.sent.max(joined.previous()), sent[index].min(through));
            if sent > above {
                untold.insert(member.user.as_str(), (index, above, sent));
            }
            all.push(Loaded { member_state, version, joined });
        }
        let (first, last) = untold.values().fold((Seq::MAX, Seq::ZERO), |(first, last), (_, above, sent)| {
            (first.min(above.next()), last.max(*sent))
        });
        if first <= last {
            self.each_writer(id, first, last, |seq, sender, content_type| {
                if let Some((index, above, sent)) = untold.get(sender)
                    && (above.next()..=*sent).contains(&seq)
                    && content_type.counts_as_unread()
                {
                    all[*index].member_state.reply(seq);
                }
            })
            .await?;
        }
        Ok(all)
    }

    /// The newest place each has written to lately, as Redis says, or the rows where it has forgotten or is away: what was
    /// sent before it went stands in no status row yet.
    async fn last_sent(&self, id: ConversationId, users: &[UserId]) -> Result<Vec<Seq>, StoreError> {
        let Some(mut sent) = self.hints.sent(id, users).await.ok().flatten() else {
            let recent = self.recent(id).await?;
            return Ok(users.iter().map(|user| recent.sent.get(user).copied().unwrap_or_default()).collect());
        };
        // Redis may not have been told yet of what was stored without it.
        if self.may_know_more_than_redis() || self.ledgers.has_unnoted(id) {
            let settled =
                self.hints.glance(id).await.ok().flatten().map_or(Seq::ZERO, |glance| glance.settled);
            let users: HashMap<&str, usize> = users.iter().map(UserId::as_str).zip(0..).collect();
            let head = self.head(id).await?;
            self.each_writer(id, settled.minus(RECENT).next(), head, |seq, sender, _| {
                if let Some(user) = users.get(sender) {
                    sent[*user] = sent[*user].max(seq);
                }
            })
            .await?;
        }
        Ok(sent)
    }

    /// Something was stored without Redis a while ago, and who did so may not have told it yet.
    pub(crate) fn may_know_more_than_redis(&self) -> bool {
        self.ledgers.is_unsure(UNTOLD) || self.outage_was_within(UNTOLD)
    }

    /// Where the sender of the message that is about to stand at `seq` stood before.
    pub(crate) async fn standing_before(
        &self,
        known: &Known,
        sender: &UserId,
        seq: Seq,
    ) -> Result<Loaded, StoreError> {
        let member = known.member(sender)?;
        let whose = (known.facts.id, sender.clone());
        let cached = self.member_states.cached().get(&whose).copied();
        if let Some(cached) = cached.filter(|cached| cached.loaded.joined == member.joined_seq) {
            return Ok(cached.loaded);
        }
        let loaded = self.standings_of(whose.0, std::slice::from_ref(member), seq.previous()).await?;
        Ok(loaded[0])
    }

    /// The sender has read what came before its message. `Some` when others have to hear of it; it is written then, or
    /// `at_once` in any case.
    pub(crate) async fn replied(
        &self,
        known: &Known,
        sender: &UserId,
        loaded: Loaded,
        seq: Seq,
        at_once: bool,
    ) -> Result<Option<ReadStateMoved>, StoreError> {
        let whose = (known.facts.id, sender.clone());
        let _one = self.member_states.one_at_a_time.enter(&whose).await;
        let cached = self.member_states.cached().get(&whose).copied();
        let mut loaded = match cached {
            Some(cached) if cached.loaded.joined == loaded.joined => cached.loaded,
            _ => loaded,
        };
        loop {
            let before = loaded.member_state;
            let is_news = loaded.member_state.reply(seq);
            if !is_news && !at_once {
                self.member_states.keep(whose, loaded, true);
                return Ok(None);
            }
            match self.write_standing(&whose, &mut loaded).await? {
                Some(()) => {
                    self.member_states.keep(whose.clone(), loaded, false);
                    let moved = self.moved(known, sender, before, loaded.member_state, None, None);
                    return Ok(is_news.then_some(moved));
                }
                None => {
                    let member = known.member(sender)?;
                    let again = self.standings_of(whose.0, std::slice::from_ref(member), seq.previous());
                    loaded = again.await?[0];
                }
            }
        }
    }

    /// `None` when somebody else has written the row meanwhile.
    pub(crate) async fn write_standing(
        &self,
        (id, user): &Whose,
        loaded: &mut Loaded,
    ) -> Result<Option<()>, StoreError> {
        let item = status_item(&loaded.member_state, loaded.version + 1);
        let key = Key::text(user, id);
        match self.rows.put(Table::MessageStatus, &key, &item, only(loaded.version)).await? {
            Written::Done => {
                loaded.version += 1;
                Ok(Some(()))
            }
            Written::Refused(_) => Ok(None),
        }
    }

    /// Writes what a member's own messages came to.
    pub(crate) async fn flush_standing(&self, whose: &Whose) -> Result<(), StoreError> {
        let _one = self.member_states.one_at_a_time.enter(whose).await;
        let cached = self.member_states.cached().get(whose).copied();
        let Some(Cached { mut loaded, is_dirty: true }) = cached else { return Ok(()) };
        if self.write_standing(whose, &mut loaded).await?.is_some() {
            self.member_states.keep(whose.clone(), loaded, false);
            return Ok(());
        }
        // Another node has written it: this node's word is added to that.
        let key = Key::text(&whose.1, whose.0);
        let row = self.rows.get(Table::MessageStatus, &key).await?;
        let mut merged = row.as_ref().map(decode_status).unwrap_or_default();
        merged.advance(&loaded.member_state);
        let version = row.as_ref().map_or(0, Item::version);
        let mut loaded = Loaded { member_state: merged, version, joined: loaded.joined };
        let is_dirty = self.write_standing(whose, &mut loaded).await?.is_none();
        self.member_states.keep(whose.clone(), loaded, is_dirty);
        Ok(())
    }

    fn moved(
        &self,
        known: &Known,
        user: &UserId,
        before: MemberState,
        now: MemberState,
        unread: Option<u64>,
        origin: Option<Origin>,
    ) -> ReadStateMoved {
        ReadStateMoved {
            conversation: known.facts.id,
            user: user.clone(),
            members: Arc::clone(&known.members),
            own: now.own(),
            shown: (now.shown() != before.shown()).then(|| now.shown()),
            unread,
            origin,
        }
    }

    pub(crate) async fn mark_now(self: &Arc<Engine>, receipt: Receipt) -> Result<ReadState, StoreError> {
        let _work = self.begin_write()?;
        let (id, user) = (receipt.conversation, &receipt.user);
        let head = self.head_for(id, receipt.seq).await?;
        let whose = (id, user.clone());
        let _one = self.member_states.one_at_a_time.enter(&whose).await;
        loop {
            let wanted = vec![
                (Table::Rooms, Key::new(id)),
                (Table::Members, Key::text(id, user)),
                (Table::MessageStatus, Key::text(user, id)),
                (Table::PendingDeliveries, Key::text(user, id)),
            ];
            let [room, member, status, pending] = self.get_several(wanted).await?;
            let room = RoomRow::decode(id, &room.ok_or(Refusal::NotAMember)?)?;
            let Some(known) = self.known_by(&room).await? else { continue };
            let member = member.filter(|item| !item.find_flag("left")).ok_or(Refusal::NotAMember)?;
            let member = decode_member(user.clone(), &member);
            let before = self.replayed(id, std::slice::from_ref(&member), vec![status], Seq::MAX).await?[0];
            let mut after = before;
            after.member_state.apply_receipt(receipt.kind, receipt.seq, head);
            if after.member_state != before.member_state {
                match self.write_standing(&whose, &mut after).await {
                    Ok(Some(())) => self.member_states.keep(whose.clone(), after, false),
                    Ok(None) => continue,
                    Err(error) => {
                        self.look_after_mark(whose);
                        return Err(error);
                    }
                }
            }
            self.local.acknowledged(user, id, after.member_state.acknowledged);
            let cleared = match pending {
                Some(pending) => self.clear_pending(user, &known, &pending, after.member_state).await,
                None => Ok(()),
            };
            let (now, then) = (after.member_state, before.member_state);
            if now.own() != then.own() || now.shown() != then.shown() {
                let unread = (now.read >= head && head > Seq::ZERO).then_some(0);
                let origin = receipt.origin.filter(|_| self.was_told_here(id, &member, then.own()));
                let moved = self.moved(&known, user, then, now, unread, origin);
                self.tell_change(CommittedChange::ReadState(moved));
            }
            // Said again, it moves nothing: whoever is there has heard of it by now.
            return cleared.map(|()| now.own());
        }
    }

    /// Nobody knows whether it was written. If it was, saying it again would move nothing, so that nobody would hear of it:
    /// wherever it stands is told soon.
    fn look_after_mark(self: &Arc<Engine>, whose: Whose) {
        if !self.member_states.looked_after.begin(whose.clone()) {
            return;
        }
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                for pause in LOOKS {
                    sleep(pause).await;
                    if engine.is_closed() {
                        return;
                    }
                    match engine.tell_standing(&whose).await {
                        Ok(()) => {}
                        Err(StoreError::Refused(_)) => break,
                        Err(error) => tracing::debug!(%error, "what became of a mark is not known yet"),
                    }
                }
                if engine.member_states.looked_after.end(&whose) {
                    return;
                }
            }
        });
    }

    pub(crate) async fn tell_standing(self: &Arc<Engine>, (id, user): &Whose) -> Result<(), StoreError> {
        let known = self.known(*id).await?;
        let member = known.member(user)?;
        let now = self.standings_of(*id, std::slice::from_ref(member), Seq::MAX).await?[0].member_state;
        let moved =
            ReadStateMoved { shown: Some(now.shown()), ..self.moved(&known, user, now, now, None, None) };
        self.tell_change(CommittedChange::ReadState(moved));
        Ok(())
    }

    /// The head, or at least `seq` where that is known to be below it. Everything up to there has been told here.
    async fn head_for(self: &Arc<Engine>, id: ConversationId, seq: Seq) -> Result<Seq, StoreError> {
        let announced = self.rooms.announced(id).unwrap_or(Seq::ZERO);
        if seq <= announced {
            return Ok(announced);
        }
        let head = self.newest(id).await?.map_or(Seq::ZERO, |cell| cell.seq());
        self.catch_up_to(id, head.min(seq)).await?;
        Ok(head.max(announced))
    }
}
