//! The members of a conversation at its owner, and the member rows that follow from the log.
//!
//! The log decides who is a member. The member rows are derived: an owner applies each change that
//! it learns before it appends the next row. So the rows lack at most the newest change, and every
//! load applies that one again.

use std::sync::Arc;

use bluetick_core::members::MembershipChange;
use bluetick_core::{ConversationId, Member, Members, Role, Seq, StoreError, UserId};

use crate::log::{ConversationLog, PlantedBug};
use crate::memberships::{Departure, decode_departure, decode_member, member_item, with_departure};
use crate::rows::{Item, Key, Only, Query, Rows, Sort, SortRange, Table, Written};

/// The member rows of one conversation.
pub struct MemberRows {
    rows: Arc<dyn Rows>,
    conversation: ConversationId,
}

/// Upper bound on the rows of one query.
const QUERY_ROWS: usize = 10_000;

impl MemberRows {
    pub fn new(rows: Arc<dyn Rows>, conversation: ConversationId) -> MemberRows {
        MemberRows { rows, conversation }
    }

    /// Writes the rows of the first members. A row that exists stays.
    pub async fn found(&self, members: &Members) -> Result<(), StoreError> {
        for member in members {
            let item = member_item(member).versioned(1);
            self.rows.put(Table::Members, &self.key(&member.user), &item, Only::IfAbsent).await?;
        }
        Ok(())
    }

    pub async fn read(&self) -> Result<Members, StoreError> {
        let mut members = Vec::new();
        let mut range = SortRange::All;
        loop {
            let query = Query {
                table: Table::Members,
                partition: self.conversation.to_string(),
                range,
                descending: false,
                limit: QUERY_ROWS,
                fields: &[],
            };
            let slice = self.rows.query(query).await?;
            for (sort, item) in &slice.rows {
                let Sort::Text(user) = sort else { continue };
                let damaged = |_| StoreError::Damaged(format!("a member of {}", self.conversation).into());
                let user = UserId::from_stored(user).map_err(damaged)?;
                if !item.find_flag(LEFT) {
                    members.push(decode_member(user, item));
                }
            }
            match slice.rows.last() {
                Some((Sort::Text(last), _)) if slice.more => range = SortRange::After(last.clone()),
                _ => return Ok(Members::from_unsorted(members)),
            }
        }
    }

    /// Applies a change whose notice is at `seq`. A row that a later change wrote stays, so a
    /// change can be applied any number of times, by any owner, at any time.
    pub async fn apply(&self, seq: Seq, change: &MembershipChange) -> Result<(), StoreError> {
        match change {
            MembershipChange::Joined(member) => {
                self.update(&member.user, seq, |before| {
                    let departure = before.and_then(|row| decode_departure(&member.user, row));
                    Some(with_departure(member_item(member), departure.as_ref()))
                })
                .await
            }
            MembershipChange::Left { user, new_admin } => {
                // First, so that the group has an admin at every moment.
                if let Some(heir) = new_admin {
                    self.update(heir, seq, |before| {
                        let member = Member { role: Role::Admin, ..decode_member(heir.clone(), before?) };
                        let departure = before.and_then(|row| decode_departure(heir, row));
                        Some(with_departure(member_item(&member), departure.as_ref()))
                    })
                    .await?;
                }
                self.update(user, seq, |before| {
                    let member = decode_member(user.clone(), before?);
                    let item = member_item(&member).flag(LEFT, true);
                    Some(with_departure(item, Some(&Departure { member, left_seq: seq })))
                })
                .await
            }
        }
    }

    /// Writes a row of a version below `seq`. `row` returns `None` if there is nothing to write.
    async fn update(
        &self,
        user: &UserId,
        seq: Seq,
        row: impl Fn(Option<&Item>) -> Option<Item>,
    ) -> Result<(), StoreError> {
        let key = self.key(user);
        loop {
            let before = self.rows.get(Table::Members, &key).await?;
            let version = before.as_ref().map_or(0, Item::version);
            if version >= seq.get() {
                return Ok(());
            }
            let Some(item) = row(before.as_ref()) else { return Ok(()) };
            let only = if before.is_some() { Only::IfVersion(version) } else { Only::IfAbsent };
            if self.rows.put(Table::Members, &key, &item.versioned(seq.get()), only).await? == Written::Done {
                return Ok(());
            }
        }
    }

    fn key(&self, user: &UserId) -> Key {
        Key::text(self.conversation, user)
    }
}

/// The attribute of a member that left.
const LEFT: &str = "left";

/// The members, as of the head of a log.
pub struct OwnedMembers {
    rows: MemberRows,
    members: Arc<Members>,
}

impl OwnedMembers {
    /// Reads the member rows, after the log was loaded, and applies the changes that the log may
    /// have and the rows may lack.
    pub async fn load(rows: MemberRows, log: &mut ConversationLog) -> Result<OwnedMembers, StoreError> {
        let members = Arc::new(rows.read().await?);
        let mut owned = OwnedMembers { rows, members };
        owned.follow(log).await?;
        Ok(owned)
    }

    pub fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// Applies the changes that the log has learned. Called before each append.
    pub async fn follow(&mut self, log: &mut ConversationLog) -> Result<(), StoreError> {
        for (first, row) in log.take_changes() {
            for (seq, change) in row.changes(first)? {
                if !log.has(PlantedBug::AppendsBeforeApplying) {
                    self.rows.apply(seq, &change).await?;
                }
                change.apply(&mut self.members);
            }
        }
        Ok(())
    }
}
