//! Checks each row by itself, and that the rows it refers to exist.

use bluetick_core::ports::ColdCount;
use bluetick_core::{ConversationId, Person, UserId};

use super::conversations::RowCheck;
use super::finding::Finding;
use super::rows::{first_conversation, key_text, row_problem};
use crate::codec::archive::SegmentRow;
use crate::codec::cold::ColdChunk;
use crate::codec::{chunk, rows};
use crate::tables::{TablesError, verified};

impl RowCheck<'_> {
    /// Checks all rows of all tables.
    pub fn all_rows(&mut self) -> Result<(), TablesError> {
        // The conversation of the previous row, and whether it exists. Rows of one conversation are
        // adjacent.
        let mut last: Option<(ConversationId, bool)> = None;
        // The user of the previous inbox row. Rows of one user are adjacent, and every member has
        // an inbox or unlisted row.
        let mut last_member: Option<UserId> = None;
        let snapshot = self.snapshot;
        snapshot.rows(|table, key, stored| {
            if table != "chunks" {
                self.count_rows(1);
            }
            // The content of chunks is checked with their conversation.
            let problem = match table {
                "chunks" => verified(key, stored).err(),
                _ => row_problem(table, key, stored),
            };
            if let Some(error) = problem {
                let finding = Finding::row(table, key_text(table, key), error.to_string());
                let id = first_conversation(key).or_else(|_| rows::key_conversation(key));
                let names_one =
                    matches!(table, "conversations" | "members" | "inbox" | "pending" | "segments");
                self.findings.add(match id {
                    Ok(id) if names_one => finding.of(id),
                    _ => finding,
                });
                return Ok(());
            }
            match table {
                "inbox" | "unlisted" => {
                    let member = user_of(key);
                    if member != last_member {
                        member.iter().for_each(|user| self.lookalikes.add(user));
                        last_member = member;
                    }
                }
                "users" | "profiles" => {
                    let user = std::str::from_utf8(key).ok().and_then(|id| UserId::from_stored(id).ok());
                    user.iter().for_each(|user| self.lookalikes.add(user));
                }
                _ => {}
            }
            let row = verified(key, stored).unwrap_or(stored);
            let checked = match table {
                "chunks" | "members" => self.belongs(table, key, &mut last),
                "inbox" => self.inbox_row(table, key, Some(row)),
                "pending" | "unlisted" => self.inbox_row(table, key, None),
                "order" => self.position(key),
                "users" => self.account(key, row),
                "names" => self.name(key),
                "segments" => self.segment(key, row),
                _ => Ok(()),
            };
            self.report_if_damaged(checked)
        })
    }

    /// Turns damage that prevented a check into a finding.
    pub(super) fn report_if_damaged(&mut self, checked: Result<(), TablesError>) -> Result<(), TablesError> {
        match checked {
            Err(TablesError::Damaged { table, error }) => {
                self.findings.add(Finding::row(table, "adjacent row", error.to_string()));
                Ok(())
            }
            other => other,
        }
    }

    /// Checks that the conversation of a chunk or a member exists.
    fn belongs(
        &mut self,
        table: &'static str,
        key: &[u8],
        last: &mut Option<(ConversationId, bool)>,
    ) -> Result<(), TablesError> {
        let Ok(id) = first_conversation(key) else {
            self.findings.add(Finding::row(table, key_text(table, key), "not a key of this table"));
            return Ok(());
        };
        if last.is_none_or(|(known, _)| known != id) {
            // A damaged conversation row exists.
            let exists = !matches!(self.snapshot.conversation(id), Ok(None));
            *last = Some((id, exists));
        }
        if matches!(last, Some((_, false))) {
            let finding = Finding::row(table, key_text(table, key), "there is no such conversation");
            self.findings.add(finding.of(id));
        }
        Ok(())
    }

    /// Checks an inbox, unlisted or pending row: its user is a member, and an inbox row has an
    /// `order` row.
    fn inbox_row(
        &mut self,
        table: &'static str,
        key: &[u8],
        inbox_row: Option<&[u8]>,
    ) -> Result<(), TablesError> {
        let Ok(id) = rows::key_conversation(key) else { return Ok(()) };
        if self.unsettled.heads.contains_key(&id) {
            return Ok(());
        }
        let Some(user) = user_of(key) else {
            self.findings.add(Finding::row(table, key_text(table, key), "not a key of this table").of(id));
            return Ok(());
        };
        if matches!(self.snapshot.member(id, &user), Ok(None)) {
            let what = "the user is not a member of the conversation";
            self.findings.add(Finding::row(table, key_text(table, key), what).of(id));
        }
        if let Some(inbox_row) = inbox_row.and_then(|inbox_row| rows::read_inbox(inbox_row).ok())
            && !self.snapshot.has_order(&rows::order_key(&user, &inbox_row.position(id)))?
        {
            let what = "the inbox row has no entry in the order";
            self.findings.add(Finding::row(table, key_text(table, key), what).of(id));
        }
        Ok(())
    }

    /// Checks that an `order` row has an inbox row with the same position.
    fn position(&mut self, key: &[u8]) -> Result<(), TablesError> {
        let Ok(position) = rows::read_inbox_position(key) else { return Ok(()) };
        if self.unsettled.heads.contains_key(&position.id) {
            return Ok(());
        }
        let line_key = key.len().checked_sub(25).and_then(|end| key.get(..end));
        let line_key = line_key.map(|user| [user, position.id.as_bytes()].concat()).unwrap_or_default();
        let inbox_row = self.snapshot.line_at(&line_key)?.map(rows::read_inbox);
        let stands_for = match inbox_row {
            Some(Ok(inbox_row)) => inbox_row.position(position.id) == position,
            Some(Err(_)) => true,
            None => false,
        };
        if !stands_for {
            let what = "no inbox row has this position";
            self.findings.add(Finding::row("order", key_text("order", key), what).of(position.id));
        }
        Ok(())
    }

    /// Checks that the search terms and skeletons of an account are in `names`.
    fn account(&mut self, key: &[u8], row: &[u8]) -> Result<(), TablesError> {
        self.report.accounts += 1;
        let Ok(user) = rows::read_user_row(key, row) else { return Ok(()) };
        if self.unsettled.users.contains(&user.id) {
            return Ok(());
        }
        for name in rows::name_keys(&Person::from(&user)) {
            if !self.snapshot.has_name(&name)? {
                let what = "the account cannot be found by one of its names";
                self.findings.add(Finding::row("users", user.id.as_str(), what));
            }
        }
        // If an older version built the index, the next start rebuilds it.
        for key in rows::skeleton_keys(&user.id) {
            if self.names_are_current && !self.snapshot.has_name(&key)? {
                let what = "the look-alike index has no entry for this user";
                self.findings.add(Finding::row("users", user.id.as_str(), what));
            }
        }
        Ok(())
    }

    /// Checks that the account of a `names` row has this term or skeleton.
    fn name(&mut self, key: &[u8]) -> Result<(), TablesError> {
        let Ok((_, user)) = rows::read_name_key(key) else { return Ok(()) };
        if self.unsettled.users.contains(&user) {
            return Ok(());
        }
        let stands_for = match self.snapshot.user(&user) {
            Ok(Some(user)) => {
                rows::name_keys(&Person::from(&user)).iter().any(|name| name == key)
                    || rows::skeleton_keys(&user.id).iter().any(|name| name == key)
                    || key.starts_with(b"\x01") && !self.names_are_current
            }
            Ok(None) => false,
            Err(_) => true,
        };
        if !stands_for {
            self.findings.add(Finding::row("names", key_text("names", key), "no account has this name"));
        }
        Ok(())
    }

    /// Checks that a chunk refers to the segment. Otherwise the segment would be kept forever.
    fn segment(&mut self, key: &[u8], row: &[u8]) -> Result<(), TablesError> {
        let (Ok(id), Ok(first)) = (first_conversation(key), rows::chunk_first_seq(key)) else {
            return Ok(());
        };
        let Ok(segment) = SegmentRow::read(row) else { return Ok(()) };
        let count = segment.count();
        self.report.archived_messages += count.messages;
        let (mut refers, mut unread) = (false, false);
        self.snapshot.chunks(id, first, |at, bytes| {
            if at > segment.last || refers {
                return Ok(false);
            }
            match chunk::Header::read(bytes).and_then(|header| {
                if header.is_cold() { ColdChunk::read(&header).map(Some) } else { Ok(None) }
            }) {
                Ok(Some(cold)) => {
                    refers |= cold.location.first == first && cold.location.revision == segment.revision
                }
                Ok(None) => {}
                Err(_) => unread = true,
            }
            Ok(true)
        })?;
        if !refers && !unread {
            let what = "no message refers to this segment of the archive";
            self.findings.add(
                Finding::row("segments", key_text("segments", key), what).of(id).at(first, segment.last),
            );
        }
        Ok(())
    }

    /// Checks the stored number of archived messages against the counted one.
    pub fn cold_count(&mut self, said: Result<ColdCount, TablesError>) -> Result<(), TablesError> {
        match said {
            Ok(said) if said.messages == self.report.archived_messages => Ok(()),
            Ok(said) => {
                let found = self.report.archived_messages;
                let what = format!("the row counts {} archived messages instead of {found}", said.messages);
                self.findings.add(Finding::row("meta", "cold count", what));
                Ok(())
            }
            Err(error @ TablesError::Damaged { .. }) => {
                self.findings.add(Finding::row("meta", "cold count", error.to_string()));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the user in a key that starts with the length of the user id and the id.
fn user_of(key: &[u8]) -> Option<UserId> {
    let user = rows::key_user(key).ok()?;
    let (length, name) = user.split_first()?;
    let fits = usize::from(*length) == name.len();
    UserId::from_stored(std::str::from_utf8(name).ok().filter(|_| fits)?).ok()
}
