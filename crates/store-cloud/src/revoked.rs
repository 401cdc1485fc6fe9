//! Void tokens among nodes. What is void stands in the user's row. Before it is written there, it goes into a journal that
//! all nodes share and look through every few seconds, so that a connection anywhere is closed although no news came: Redis
//! may be away, and whoever revoked may die in between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::CommittedChange;
use bluetick_core::{Revocations, Revoke, Revoked, StoreError, Timestamp, TokenFacts, TokenPrint, UserId};
use tokio::time::{Instant, sleep};

use crate::engine::Engine;
use crate::people::SHARED;
use crate::rows::{Item, Key, Only, Query, Slice, Sort, SortRange, Table};

/// The name of the text in a user's row, and in a row of the journal.
pub(crate) const REVOKED: &str = "revoked";
const USER: &str = "user";

/// Rows are looked at again for this long, since clocks of nodes differ and a write may be seen late.
const OVERLAP_MS: i64 = 60_000;
/// How long they are kept: by whoever clears them away, from when it saw them on, and by no clock of theirs or its own.
const KEPT: Duration = Duration::from_secs(3_600);
/// A node that has not looked for so long asks the users' rows.
const MOST_MISSED_MS: i64 = 1_800_000;
const AT_ONCE: usize = 500;
/// One look in so many also clears the table.
const LOOKS_BETWEEN_CLEARINGS: u64 = 12;

/// The moment in the first line, or `-`; then a line for each token: its print, when it was issued, when it ends.
pub(crate) fn revocations_text(void: &Revocations) -> String {
    let mut text = void.through().map_or("-".to_owned(), |through| through.millis().to_string());
    for TokenFacts { print, issued_at, expires_at } in void.tokens() {
        text += &format!("\n{print} {} {}", issued_at.millis(), expires_at.millis());
    }
    text
}

/// What cannot be read is passed over.
pub(crate) fn read_revocations(text: &str) -> Revocations {
    let mut lines = text.lines();
    let through = lines.next().and_then(|first| first.parse().ok()).map(Timestamp::from_millis);
    Revocations::new(through, lines.filter_map(read_token).collect())
}

fn read_token(line: &str) -> Option<TokenFacts> {
    let mut words = line.split(' ');
    let print = TokenPrint::from_bytes(u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes());
    let mut moment = || Some(Timestamp::from_millis(words.next()?.parse().ok()?));
    Some(TokenFacts { print, issued_at: moment()?, expires_at: moment()? })
}

fn partition() -> String {
    format!("{SHARED}{REVOKED}")
}

/// In the order of time.
fn place(at: Timestamp) -> String {
    format!("{:015}", at.millis().max(0))
}

pub(crate) async fn run(engine: Arc<Engine>) {
    let mut since = engine.clock.now();
    let (mut looks, mut clearing): (u64, _) = (0, Clearing::default());
    loop {
        sleep(engine.settings.health_interval()).await;
        let now = engine.clock.now();
        match engine.hear_revocations(since, now).await {
            Ok(()) => since = now,
            Err(error) => tracing::debug!(%error, "which tokens were revoked elsewhere could not be read"),
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS_BETWEEN_CLEARINGS)
            && let Err(error) = engine.clear_revocations(&mut clearing, Instant::now()).await
        {
            tracing::debug!(%error, "old revocations could not be cleared away");
        }
    }
}

impl Engine {
    /// Says to all nodes what is about to be written. Whoever is closed by it and finds the token still good, because
    /// that was never written, has lost nothing but a connection.
    pub(crate) async fn announce_revocation(
        &self,
        user: &UserId,
        revoke: &Revoke,
        void: &Revocations,
    ) -> Result<(), StoreError> {
        let which = match revoke.what {
            Revoked::Token(token) => token.print.to_string(),
            Revoked::Through(_) => "all".to_owned(),
        };
        let key = Key::text(partition(), format!("{} {which} {user}", place(self.clock.now())));
        let item = Item::new().text(USER, user.as_str()).text(REVOKED, revocations_text(void)).versioned(1);
        self.rows.put(Table::Names, &key, &item, Only::Always).await?;
        Ok(())
    }

    async fn hear_revocations(&self, since: Timestamp, now: Timestamp) -> Result<(), StoreError> {
        if now.millis() - since.millis() > MOST_MISSED_MS {
            return self.check_everybody().await;
        }
        let mut after = place(since.plus_millis(-OVERLAP_MS));
        loop {
            let slice = self.revocations(SortRange::After(after.clone()), false, AT_ONCE).await?;
            let heard = slice.rows.iter().filter_map(|(_, item)| {
                let user = UserId::from_stored(item.find_text(USER)?).ok()?;
                Some(CommittedChange::Revoked {
                    user,
                    revocations: read_revocations(item.find_text(REVOKED)?),
                })
            });
            self.listener.changed(heard.collect());
            match slice.rows.last() {
                Some((Sort::Text(last), _)) if slice.more => after.clone_from(last),
                _ => return Ok(()),
            }
        }
    }

    /// The tables were away for so long that the journal may not reach back.
    async fn check_everybody(&self) -> Result<(), StoreError> {
        for user in self.local.everybody() {
            let revocations = self.profile_now(&user).await?.revocations;
            if !revocations.is_empty() {
                self.listener.changed(vec![CommittedChange::Revoked { user, revocations }]);
            }
        }
        Ok(())
    }

    /// Deletes what has been there for long enough. Nodes come to it at different times, and whoever comes later finds
    /// little.
    async fn clear_revocations(&self, clearing: &mut Clearing, now: Instant) -> Result<(), StoreError> {
        let newest = self.revocations(SortRange::All, true, 1).await?.rows.pop();
        let newest =
            newest.and_then(|(sort, _)| if let Sort::Text(place) = sort { Some(place) } else { None });
        let Some(through) = clearing.saw(newest, now) else { return Ok(()) };
        loop {
            let slice = self.revocations(SortRange::All, false, AT_ONCE).await?;
            let old = slice.rows.into_iter().filter_map(|(sort, _)| match sort {
                Sort::Text(text) if text <= through => Some((Table::Names, Key::text(partition(), text))),
                _ => None,
            });
            let old: Vec<_> = old.collect();
            let is_all = old.len() < AT_ONCE && !slice.more;
            if old.is_empty() {
                return Ok(());
            }
            self.rows.delete_all(old).await?;
            if is_all {
                return Ok(());
            }
        }
    }

    async fn revocations(
        &self,
        range: SortRange,
        descending: bool,
        limit: usize,
    ) -> Result<Slice, StoreError> {
        let fields = &[USER, REVOKED];
        let (table, partition) = (Table::Names, partition());
        Ok(self.rows.query(Query { table, partition, range, descending, limit, fields }).await?)
    }
}

/// What this node knows of the age of the journal's rows: which was the newest when it looked.
#[derive(Default)]
struct Clearing {
    seen: VecDeque<(Instant, String)>,
}

impl Clearing {
    /// Up to which place everything has been there for long enough.
    fn saw(&mut self, newest: Option<String>, now: Instant) -> Option<String> {
        self.seen.extend(newest.map(|newest| (now, newest)));
        let old = self.seen.partition_point(|(at, _)| *at + KEPT <= now);
        self.seen.drain(..old).map(|(_, place)| place).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_old_when_it_was_seen_long_ago_whatever_it_says_itself() {
        let (mut clearing, start) = (Clearing::default(), Instant::now());
        let mut saw = |newest: &str, minutes: u64| {
            clearing.saw(Some(newest.to_owned()), start + Duration::from_secs(minutes * 60))
        };
        assert_eq!(saw("5", 0), None);
        assert_eq!(saw("7", 30), None);
        assert_eq!(saw("8", 59), None);
        assert_eq!(saw("9", 60), Some("5".to_owned()));
        assert_eq!(saw("9", 119), Some("8".to_owned()));
        assert_eq!(clearing.saw(None, start + Duration::from_secs(120 * 60)), Some("9".to_owned()));
    }

    #[test]
    fn what_is_void_comes_back_from_its_text_as_it_was() {
        let at = Timestamp::from_millis;
        let token = TokenFacts {
            print: TokenPrint::from_bytes(*b"\0\x01sixteen bytes."),
            issued_at: at(-5),
            expires_at: at(1_800_000_000_250),
        };
        for void in [
            Revocations::default(),
            Revocations::new(Some(at(7)), Vec::new()),
            Revocations::new(None, vec![token]),
            Revocations::new(Some(at(-9)), vec![token, TokenFacts::default()]),
        ] {
            assert_eq!(read_revocations(&revocations_text(&void)), void);
        }
        assert_eq!(read_revocations("7\nnonsense\n"), Revocations::new(Some(at(7)), Vec::new()));
    }
}
