//! Reads the whole store for a copy elsewhere: all users, all conversations and all messages.
//! Conversations include the read states of their members. Messages include those that no member
//! can see any more.
//!
//! The store must not be written meanwhile. The caller ensures that: it opened the store and gives
//! no other component access to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluetick_core::ports::{Archive, ArchiveError, Store};
use bluetick_core::{
    Cause, Conversation, ConversationId, Epoch, Member, MemberState, Message, PageFrom, PageLimit,
    PageRequest, Profile, Seq, StoreError, User, UserId,
};

use crate::archive::Filled;
use crate::read::{PartialPage, page_of_all};
use crate::store::{ARCHIVE_READ_ATTEMPTS, EmbeddedStore, blocking};
use crate::tables::TablesError;

/// What the store contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Identifies the store: unique, and constant over its life.
    pub name: String,
    /// Increases with every write, except for the archive's own writes.
    pub position: u64,
    pub epoch: Epoch,
    pub accounts: u64,
    pub conversations: u64,
    pub messages: u64,
    /// The number of messages whose content is in the archive.
    pub archived: u64,
    /// The number of requested erasures whose content still exists.
    pub unfinished_erasures: u64,
}

/// A user: an account, or only the profile of a user whom the operator's own product manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedUser {
    pub id: UserId,
    pub account: Option<User>,
    pub profile: Option<Profile>,
}

/// A conversation with the read state of each member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedConversation {
    pub conversation: Conversation,
    pub members: Vec<(Member, MemberState)>,
}

impl EmbeddedStore {
    /// Writes the state that is only in the log and in memory to the tables, from which the other
    /// export methods read.
    ///
    /// Fails if the settings name a different archive than the one that contains the store's
    /// messages. Otherwise the export would report all of them as lost.
    pub async fn begin_export(&self) -> Result<Inventory, StoreError> {
        self.archiver.must_be_in_place().await.map_err(in_store)?;
        self.archiver.checkpoint().await.map_err(in_store)?;
        let status = Archive::status(self).await.map_err(in_store)?;
        let (tables, epoch, tag) = (Arc::clone(&self.tables), self.epoch(), self.identity.tag.0);
        blocking(move || {
            let engine = tables.current()?;
            let snapshot = engine.snapshot()?;
            let (mut ids, mut messages) = (Vec::new(), 0);
            snapshot.conversations(None, |id| {
                ids.push(id);
                true
            })?;
            for id in &ids {
                messages += snapshot.conversation(*id)?.map_or(0, |stored| stored.conversation.head.get());
            }
            Ok(Inventory {
                name: tag.iter().map(|byte| format!("{byte:02x}")).collect(),
                position: engine.checkpoint()?.0,
                epoch,
                accounts: snapshot.user_count()?,
                conversations: ids.len() as u64,
                messages,
                archived: status.cold.messages,
                unfinished_erasures: status.unfinished_erasures,
            })
        })
        .await
    }

    /// Returns the next users above `after`, ordered by id. An empty list means that there are no
    /// more.
    pub async fn export_people(
        &self,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<ExportedUser>, StoreError> {
        let tables = Arc::clone(&self.tables);
        blocking(move || {
            let engine = tables.current()?;
            let snapshot = engine.snapshot()?;
            let users = snapshot.users_after(after.as_ref(), limit)?;
            let profiles = snapshot.profiles_after(after.as_ref(), limit)?;
            Ok(merged(users, profiles, limit))
        })
        .await
    }

    /// Returns the next conversation ids above `after`.
    pub async fn export_ids(
        &self,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let tables = Arc::clone(&self.tables);
        blocking(move || {
            let mut ids = Vec::new();
            tables.current()?.snapshot()?.conversations(after, |id| {
                ids.push(id);
                ids.len() < limit
            })?;
            Ok(ids)
        })
        .await
    }

    pub async fn export_conversation(&self, id: ConversationId) -> Result<ExportedConversation, StoreError> {
        let tables = Arc::clone(&self.tables);
        blocking(move || {
            let engine = tables.current()?;
            let snapshot = engine.snapshot()?;
            let stored = snapshot.conversation(id)?.ok_or(TablesError::Orphaned { id })?;
            let (members, member_states) = snapshot.members(id)?;
            let members = members.iter().cloned().zip(member_states).collect();
            Ok(ExportedConversation { conversation: stored.conversation, members })
        })
        .await
    }

    /// Returns up to one page of messages above `after`, oldest first; none at the head. Fetches
    /// archived content. Content that cannot be read is `lost`. Fails if the archive does not
    /// respond.
    pub async fn export_messages(
        &self,
        conversation: &Conversation,
        after: Seq,
    ) -> Result<Vec<Message>, StoreError> {
        if after >= conversation.head {
            return Ok(Vec::new());
        }
        let request = PageRequest {
            conversation: conversation.id,
            reader: conversation.created_by.clone(),
            from: PageFrom::After(after),
            limit: PageLimit::MAX,
        };
        for attempt in 1.. {
            let (tables, request) = (Arc::clone(&self.tables), request.clone());
            let draft: PartialPage = blocking(move || page_of_all(&tables, request)).await?;
            if draft.cold.is_empty() {
                return draft.finish().map(|page| page.messages);
            }
            match self.archiver.fill(draft, attempt == ARCHIVE_READ_ATTEMPTS).await? {
                Filled::Page(page) => return Ok(page.messages),
                Filled::LookAgain => {}
            }
        }
        unreachable!("the last attempt returns a page or an error")
    }
}

/// Merges both lists by id. A full list may lack users after its last entry, so the result ends at
/// the lowest last entry of the full lists.
fn merged(users: Vec<User>, profiles: Vec<(UserId, Profile)>, limit: usize) -> Vec<ExportedUser> {
    let mut ends = Vec::new();
    if users.len() == limit {
        ends.extend(users.last().map(|user| user.id.clone()));
    }
    if profiles.len() == limit {
        ends.extend(profiles.last().map(|(id, _)| id.clone()));
    }
    let mut all: BTreeMap<UserId, (Option<User>, Option<Profile>)> = BTreeMap::new();
    for user in users {
        let id = user.id.clone();
        all.entry(id).or_default().0 = Some(user);
    }
    for (id, profile) in profiles {
        all.entry(id).or_default().1 = Some(profile);
    }
    let end = ends.into_iter().min();
    let all = all.into_iter().filter(|(id, _)| end.as_ref().is_none_or(|end| id <= end));
    all.map(|(id, (account, profile))| ExportedUser { id, account, profile }).collect()
}

fn in_store(error: ArchiveError) -> StoreError {
    match error {
        ArchiveError::Store(error) => error,
        other => StoreError::Failed(Cause::of(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> User {
        let id = id.parse().unwrap();
        User { id, display_name: None, password_hash: None, created_at: Default::default() }
    }

    fn profile(id: &str) -> (UserId, Profile) {
        (id.parse().unwrap(), Profile::default())
    }

    #[test]
    fn merged_export_lists_each_user_once_when_a_list_was_limited() {
        let people = merged(vec![user("ann"), user("bob")], vec![profile("bob"), profile("zoe")], 2);
        let shown: Vec<_> = people.iter().map(|one| (one.id.as_str(), one.profile.is_some())).collect();
        // There may be accounts between bob and zoe that the first list had no space for.
        assert_eq!(shown, [("ann", false), ("bob", true)]);
        let people = merged(vec![user("ann")], vec![profile("bob")], 2);
        assert_eq!(people.len(), 2);
        assert!(people[1].account.is_none());
    }
}
