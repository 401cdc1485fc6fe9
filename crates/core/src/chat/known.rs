//! Which names are in use.

use std::collections::HashSet;

use crate::chat::{Chat, ChatError};
use crate::names::Skeleton;
use crate::{Profile, Refusal, UserId};

impl Chat {
    /// Whether the name is in use: by a user, a stored profile, or a member of a conversation.
    /// Sign-up and conversations share this check.
    pub async fn is_in_use(&self, id: &UserId) -> Result<bool, ChatError> {
        if self.store.user(id).await?.is_some() || self.store.profile(id).await? != Profile::default() {
            return Ok(true);
        }
        Ok(self.store.is_member(id).await?)
    }

    /// Whether sign-up has to refuse the name because of a member without an account: the id itself
    /// is in use, in lower case, upper case or with a capital, or one of the plain spellings of names
    /// that look like it. For users with an account the store compares all spellings.
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

    /// Refuses the first unknown user if conversations accept only known users. The token of the
    /// caller makes the caller known. Reserves the names of users without an account, the caller's
    /// included, so that sign-up cannot take them after they have left the conversation.
    pub(super) async fn require_known(&self, caller: &UserId, users: &[UserId]) -> Result<(), ChatError> {
        if !self.rules.known_people_only {
            return Ok(());
        }
        // Most users have an account, and one call finds all of them.
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

    /// Reserves the name of a member without an account, who is about to leave a conversation.
    /// Without it the name would be free for sign-up after the last conversation.
    pub(super) async fn keep_name(&self, member: &UserId) -> Result<(), ChatError> {
        // Membership is checked first: otherwise any caller could reserve any name.
        if self.store.user(member).await?.is_none() && self.store.is_member(member).await? {
            self.store.reserve_name(member.clone(), self.clock.now()).await?;
        }
        Ok(())
    }
}

/// The name in lower case with a capital at its beginning.
fn capitalised(name: &str) -> String {
    let lower = name.to_lowercase();
    let mut letters = lower.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.collect::<String>() + letters.as_str()
}
