//! Helpers for the inbox, missed messages and profiles.

use bluetick_core::ports::{Behind, Position, SetPreferences};
use bluetick_core::{
    ConversationId, InboxEntry, InboxFilter, InboxKey, InboxPage, InboxRequest, PageLimit, PreferenceChange,
    Profile, ProfileUpdate, Revoke, Revoked, Seq, StoreError, Timestamp,
};

use crate::NOW;
use crate::{Harness, StoreUnderTest};

pub const PIN: PreferenceChange =
    PreferenceChange { muted: None, pinned: Some(true), archived: None, hides_reads: None };
pub const ARCHIVE: PreferenceChange =
    PreferenceChange { muted: None, pinned: None, archived: Some(true), hides_reads: None };
pub const MUTE: PreferenceChange =
    PreferenceChange { muted: Some(true), pinned: None, archived: None, hides_reads: None };

/// A [`Behind`] that reports the messages above `after` up to `head` as missing and acknowledges
/// nothing.
pub fn behind(conversation: ConversationId, after: u64, head: u64) -> Behind {
    Behind { conversation, after: Seq::new(after), head: Seq::new(head), unacknowledged: false }
}

impl<H: Harness> StoreUnderTest<H> {
    pub async fn set_preferences(
        &self,
        conversation: ConversationId,
        name: &str,
        change: PreferenceChange,
    ) -> Result<InboxEntry, StoreError> {
        self.store().set_preferences(SetPreferences { conversation, user: self.user(name), change }).await
    }

    pub async fn entry(&self, id: ConversationId, name: &str) -> InboxEntry {
        self.store().inbox_entry(id, &self.user(name)).await.expect("a member has an entry")
    }

    pub async fn unread(&self, id: ConversationId, name: &str) -> u64 {
        self.entry(id, name).await.unread
    }

    pub async fn inbox_page(&self, name: &str, after: Option<InboxKey>, limit: i64) -> InboxPage {
        self.filtered_page(name, after, limit, InboxFilter::All).await
    }

    pub async fn filtered_page(
        &self,
        name: &str,
        after: Option<InboxKey>,
        limit: i64,
        filter: InboxFilter,
    ) -> InboxPage {
        let limit = PageLimit::try_from(limit).expect("1 to 100");
        let request = InboxRequest { user: self.user(name), after, limit, filter };
        let page = self.store().inbox(request).await.expect("every user has an inbox");
        assert!(page.entries.len() <= limit.count());
        page
    }

    /// Returns the whole inbox of `name`, read in pages of `limit`.
    pub async fn paged_inbox(&self, name: &str, limit: i64, filter: InboxFilter) -> Vec<InboxEntry> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.filtered_page(name, after, limit, filter).await;
            assert!(
                page.next.is_none_or(|next| after.is_none_or(|after| after < next)),
                "the cursor of a page moves forward"
            );
            assert!(page.next.is_none() || !page.entries.is_empty(), "an empty page is the last");
            all.extend(page.entries);
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    /// Returns the conversations of `name` in inbox order.
    pub async fn inbox(&self, name: &str) -> Vec<ConversationId> {
        conversations(&self.paged_inbox(name, 100, InboxFilter::All).await)
    }

    /// Returns what a device of `name` with these positions misses, sorted by conversation.
    pub async fn behind(&self, name: &str, positions: &[(ConversationId, u64)]) -> Vec<Behind> {
        let position =
            |&(conversation, seq): &(ConversationId, u64)| Position { conversation, seq: Seq::new(seq) };
        let positions = positions.iter().map(position).collect();
        let missed = self
            .store()
            .behind(&self.user(name), positions)
            .await
            .expect("any user may ask for missed messages");
        let mut behind = missed.behind;
        behind.sort_by_key(|behind| behind.conversation);
        let each_once = behind.is_sorted_by(|one, next| one.conversation < next.conversation);
        assert!(each_once, "each conversation once");
        behind
    }

    /// Returns the seq after which messages are pending for `name`, or `None` if none are.
    pub async fn pending(&self, id: ConversationId, name: &str) -> Option<u64> {
        let behind = self.behind(name, &[]).await;
        behind.into_iter().find(|behind| behind.conversation == id).map(|behind| behind.after.get())
    }

    pub async fn profile(&self, name: &str) -> Profile {
        self.store().profile(&self.user(name)).await.expect("every user has a profile")
    }

    pub async fn seen_at(&self, name: &str, last_seen_at: Timestamp) -> Profile {
        self.update_profile(name, Some(last_seen_at), None).await
    }

    pub async fn hide_presence(&self, name: &str, hides: bool) -> Profile {
        self.update_profile(name, None, Some(hides)).await
    }

    pub async fn revoke(&self, name: &str, what: Revoked) -> Profile {
        let revoke = Some(Revoke { what, at: NOW });
        let update = ProfileUpdate { revoke, ..ProfileUpdate::of(self.user(name)) };
        self.store().update_profile(update).await.expect("any token can be revoked")
    }

    async fn update_profile(
        &self,
        name: &str,
        last_seen_at: Option<Timestamp>,
        hides_presence: Option<bool>,
    ) -> Profile {
        let update = ProfileUpdate { last_seen_at, hides_presence, ..ProfileUpdate::of(self.user(name)) };
        self.store().update_profile(update).await.expect("a profile needs no account")
    }
}

pub fn conversations(entries: &[InboxEntry]) -> Vec<ConversationId> {
    entries.iter().map(|entry| entry.conversation.id).collect()
}
