//! Checks and reservations of user names: which users are known, and which names sign-up must
//! refuse.

use std::collections::HashSet;

use crate::chat::{Chat, ChatError};
use crate::names::Skeleton;
use crate::{Profile, Refusal, UserId};

impl Chat {
    /// Returns whether the name is in use: by an account, a stored profile, or a member of a
    /// conversation. Sign-up and conversations share this check.
    pub async fn is_in_use(&self, id: &UserId) -> Result<bool, ChatError> {
        if self.store.user(id).await?.is_some() || self.store.profile(id).await? != Profile::default() {
            return Ok(true);
        }
        Ok(self.store.is_member(id).await?)
    }

    /// Returns whether sign-up must refuse the name because of a user without an account. It tests
    /// the id as given, in lower case, in upper case and capitalized, and the plain spellings of
    /// look-alike names. For users with an account, the store compares all spellings.
    pub async fn is_taken(&self, id: &UserId) -> Result<bool, ChatError> {
        let mut spellings: Vec<String> =
            Skeleton::all(id.as_str()).iter().flat_map(Skeleton::plain_spellings).collect();
        spellings.extend([id.as_str().to_lowercase(), id.as_str().to_uppercase(), capitalised(id.as_str())]);
        let spellings = spellings.iter().filter_map(|name| name.parse::<UserId>().ok());
        let names: HashSet<UserId> = spellings.chain([id.clone()]).collect();
        for name in &names {
            if self.is_in_use(name).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails with [`Refusal::UnknownUser`] for the first unknown user, if conversations accept only
    /// known users. The caller counts as known, because it has a valid token. Reserves the names of
    /// users without an account, including the caller's, so that sign-up cannot take them later.
    pub(super) async fn require_known(&self, caller: &UserId, users: &[UserId]) -> Result<(), ChatError> {
        if !self.rules.known_people_only {
            return Ok(());
        }
        // Most users have an account, and one call finds all of those.
        let named: HashSet<&UserId> = users.iter().chain([caller]).collect();
        let people = self.store.people(named.iter().copied().cloned().collect()).await?;
        let with_account: HashSet<&UserId> = people.iter().map(|person| &person.id).collect();
        let without_account = || users.iter().chain([caller]).filter(|user| !with_account.contains(user));
        for user in without_account().filter(|user| *user != caller) {
            if !self.is_in_use(user).await? {
                return Err(Refusal::UnknownUser { user: user.clone() }.into());
            }
        }
        for user in without_account() {
            self.store.reserve_name(user.clone(), self.clock.now()).await?;
        }
        Ok(())
    }

    /// Reserves the name of a member without an account who is about to leave a conversation.
    /// Otherwise sign-up could take the name after the member's last conversation.
    pub(super) async fn keep_name(&self, member: &UserId) -> Result<(), ChatError> {
        // Check membership first: otherwise any caller could reserve any name.
        if self.store.user(member).await?.is_none() && self.store.is_member(member).await? {
            self.store.reserve_name(member.clone(), self.clock.now()).await?;
        }
        Ok(())
    }
}

/// Returns the name in lower case with its first character in upper case.
fn capitalised(name: &str) -> String {
    let lower = name.to_lowercase();
    let mut letters = lower.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.collect::<String>() + letters.as_str()
}
