//! Accounts, names people are found by, and when somebody was last here.

use std::sync::Arc;

use bluetick_core::people::name_terms;
use bluetick_core::ports::{CommittedChange, UserUpdate};
use bluetick_core::{
    NamePrefix, Person, Profile, ProfileUpdate, Refusal, Skeleton, StoreError, Timestamp, User, UserId,
};

use crate::engine::{CloudStore, Engine};
use crate::revoked::{REVOKED, read_revocations, revocations_text};
use crate::rows::{Item, Key, Only, Query, Rows, Sort, SortRange, Table, Written};

/// Stands between a term and whose it is; neither contains it.
const BORDER: char = '\0';

pub(crate) fn decode_user(id: &UserId, item: &Item) -> Option<User> {
    let created_at = item.find_number("created_at")?;
    Some(User {
        id: id.clone(),
        display_name: item.find_text("display_name").cloned(),
        password_hash: item.find_text("password_hash").cloned(),
        created_at: Timestamp::from_millis(created_at),
    })
}

pub(crate) fn with_user(item: Item, user: &User) -> Item {
    item.text_if("display_name", user.display_name.clone())
        .text_if("password_hash", user.password_hash.clone())
        .number("created_at", user.created_at.millis())
}

pub(crate) fn decode_profile(item: &Item) -> Profile {
    Profile {
        last_seen_at: item.find_number("last_seen_at").map(Timestamp::from_millis),
        hides_presence: item.find_flag("hides_presence"),
        revocations: item.find_text(REVOKED).map(|text| read_revocations(text)).unwrap_or_default(),
    }
}

pub(crate) fn with_profile(item: Item, profile: &Profile) -> Item {
    let void = (!profile.revocations.is_empty()).then(|| revocations_text(&profile.revocations));
    let item = item.flag("hides_presence", profile.hides_presence).text_if(REVOKED, void);
    match profile.last_seen_at {
        Some(at) => item.number("last_seen_at", at.millis()),
        None => item,
    }
}

fn name_key(term: &str, user: &UserId) -> Option<Key> {
    let initial = term.chars().next()?;
    Some(Key::text(initial, format!("{term}{BORDER}{user}")))
}

pub(crate) fn name_keys(user: &User) -> Vec<(Table, Key)> {
    let terms = name_terms(&user.id, user.display_name.as_deref());
    terms.iter().filter_map(|term| Some((Table::Names, name_key(term, &user.id)?))).collect()
}

/// No user is called so, since no name holds a control character.
pub(crate) const SHARED: char = '\u{1}';

pub(crate) fn shared_key(name: &str) -> Key {
    Key::new(format!("{SHARED}{name}"))
}

/// Prefix of the key of a name's holder row. No user id begins with it.
const HELD: char = '\u{2}';

fn holder_key(name: &Skeleton) -> Key {
    Key::new(format!("{HELD}{}", name.key()))
}

/// One row for each skeleton of the id, with the id that holds it. Ids that look alike share at
/// least one of these rows. Sorted by key.
pub(crate) fn holder_rows(user: &UserId) -> Vec<(Table, Key, Item)> {
    let mut keys: Vec<Key> = Skeleton::all(user.as_str()).iter().map(holder_key).collect();
    keys.sort_by(|one, other| one.partition.cmp(&other.partition));
    let item = Item::new().text("holder", user.as_str()).versioned(1);
    keys.into_iter().map(|key| (Table::Users, key, item.clone())).collect()
}

impl CloudStore {
    /// A text that all nodes have in common: what is kept under this name, or `ours` where nothing is yet.
    pub async fn in_common(&self, name: &str, ours: &str) -> Result<Arc<str>, StoreError> {
        in_common(&*self.engine.rows, name, ours).await
    }
}

pub(crate) async fn in_common(rows: &dyn Rows, name: &str, ours: &str) -> Result<Arc<str>, StoreError> {
    let key = shared_key(name);
    let item = Item::new().text("text", ours).versioned(1);
    match rows.put(Table::Users, &key, &item, Only::IfAbsent).await? {
        Written::Done => Ok(ours.into()),
        Written::Refused(there) => {
            let there = match there {
                Some(there) => Some(there),
                None => rows.get(Table::Users, &key).await?,
            };
            let there = there.unwrap_or_default();
            Ok(Arc::clone(there.get_text("text")?))
        }
    }
}

impl Engine {
    /// Reads a user's row, lets `change` make a new one of it, and writes that, again if somebody was faster. `None`
    /// from `change` leaves it as it is.
    pub(crate) async fn update_row(
        &self,
        user: &UserId,
        change: impl Fn(Item) -> Result<Option<Item>, Refusal>,
    ) -> Result<Item, StoreError> {
        let key = Key::new(user);
        loop {
            let row = self.rows.get(Table::Users, &key).await?;
            let only = row.as_ref().map_or(Only::IfAbsent, |row| Only::IfVersion(row.version()));
            let before = row.unwrap_or_default();
            let Some(item) = change(before.clone())? else { return Ok(before) };
            let item = item.versioned(before.version() + 1);
            if self.rows.put(Table::Users, &key, &item, only).await? == Written::Done {
                return Ok(before);
            }
        }
    }

    pub(crate) async fn create_user_now(&self, user: User) -> Result<(), StoreError> {
        let _work = self.begin_write()?;
        if self.user_now(&user.id).await?.is_some() {
            return Err(Refusal::UserExists.into());
        }
        // In sorted order and up to the first row of another id, so that one of two concurrent calls
        // for ids that look alike holds all of its rows.
        for row in holder_rows(&user.id) {
            if !self.hold(&user.id, row).await? {
                return Err(Refusal::UserExists.into());
            }
        }
        self.write_user(user).await
    }

    pub(crate) async fn reserve_name_now(&self, user: User) -> Result<(), StoreError> {
        let _work = self.begin_write()?;
        if self.user_now(&user.id).await?.is_some() {
            return Ok(());
        }
        for row in holder_rows(&user.id) {
            self.hold(&user.id, row).await?;
        }
        match self.write_user(user).await {
            Err(StoreError::Refused(Refusal::UserExists)) => Ok(()),
            done => done,
        }
    }

    /// Takes a holder row if no id has it, and returns whether this id holds it. A conditional write
    /// decides, before the user's own row is written. A crash in between leaves a row that the same
    /// id can still take.
    async fn hold(&self, user: &UserId, (table, key, item): (Table, Key, Item)) -> Result<bool, StoreError> {
        let there = match self.rows.put(table, &key, &item, Only::IfAbsent).await? {
            Written::Done => return Ok(true),
            Written::Refused(Some(there)) => there,
            Written::Refused(None) => self.rows.get(table, &key).await?.unwrap_or_default(),
        };
        Ok(**there.get_text("holder")? == *user.as_str())
    }

    /// Writes the names first: a search skips a name without a user, but would not find a user
    /// without names.
    async fn write_user(&self, user: User) -> Result<(), StoreError> {
        self.write_names(&user).await?;
        self.update_row(&user.id, |row| match decode_user(&user.id, &row) {
            Some(_) => Err(Refusal::UserExists),
            None => Ok(Some(with_user(row, &user))),
        })
        .await?;
        Ok(())
    }

    async fn write_names(&self, user: &User) -> Result<(), StoreError> {
        let rows = name_keys(user).into_iter().map(|(table, key)| (table, key, Item::new().versioned(1)));
        Ok(self.rows.put_all(rows.collect()).await?)
    }

    pub(crate) async fn update_user_now(&self, update: UserUpdate) -> Result<(), StoreError> {
        let _work = self.begin_write()?;
        let before = self.user_now(&update.id).await?.ok_or(Refusal::NoSuchUser)?;
        let changed = |user: User| User {
            display_name: update.display_name.clone().or(user.display_name),
            password_hash: update.password_hash.clone().or(user.password_hash),
            ..user
        };
        let after = changed(before.clone());
        self.write_names(&after).await?;
        self.update_row(&update.id, |row| match decode_user(&update.id, &row) {
            Some(user) => Ok(Some(with_user(row, &changed(user)))),
            None => Err(Refusal::NoSuchUser),
        })
        .await?;
        let kept = name_keys(&after);
        let old: Vec<_> = name_keys(&before).into_iter().filter(|key| !kept.contains(key)).collect();
        Ok(self.rows.delete_all(old).await?)
    }

    pub(crate) async fn user_now(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        let row = self.rows.get(Table::Users, &Key::new(id)).await?;
        Ok(row.and_then(|row| decode_user(id, &row)))
    }

    pub(crate) async fn people_now(&self, ids: &[UserId]) -> Result<Vec<Person>, StoreError> {
        let users = self.users_now(ids).await?;
        Ok(users.iter().flatten().map(Person::from).collect())
    }

    async fn users_now(&self, ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        let rows = self.rows.get_many(ids.iter().map(|id| (Table::Users, Key::new(id))).collect()).await?;
        Ok(ids.iter().zip(rows).map(|(id, row)| decode_user(id, &row?)).collect())
    }

    pub(crate) async fn find_people_now(
        &self,
        prefix: &NamePrefix,
        limit: usize,
    ) -> Result<Vec<Person>, StoreError> {
        let Some(initial) = prefix.as_str().chars().next() else { return Ok(Vec::new()) };
        let mut found: Vec<Person> = Vec::new();
        let mut after: Option<String> = None;
        while found.len() < limit {
            let query = Query {
                table: Table::Names,
                partition: initial.to_string(),
                range: match &after {
                    None => SortRange::Prefix(prefix.as_str().to_owned()),
                    Some(after) => SortRange::After(after.clone()),
                },
                descending: false,
                limit: (2 * limit).max(20),
                fields: &["version"],
            };
            let slice = self.rows.query(query).await?;
            let names = slice.rows.iter().filter_map(|(sort, _)| match sort {
                Sort::Text(text) if text.starts_with(prefix.as_str()) => text.split_once(BORDER),
                _ => None,
            });
            let names: Vec<(&str, UserId)> =
                names.filter_map(|(term, id)| Some((term, UserId::from_stored(id).ok()?))).collect();
            let ids: Vec<_> = names.iter().map(|(_, id)| id.clone()).collect();
            for ((term, _), user) in names.iter().zip(self.users_now(&ids).await?) {
                // A name that somebody had before, or that a sign-up left which came second.
                let Some(user) = user else { continue };
                let terms = name_terms(&user.id, user.display_name.as_deref());
                let is_first = prefix.match_in(&terms) == Some(term);
                if is_first && found.len() < limit {
                    found.push(Person::from(&user));
                }
            }
            match slice.rows.last() {
                Some((Sort::Text(last), _)) if slice.more && last.starts_with(prefix.as_str()) => {
                    after = Some(last.clone());
                }
                _ => break,
            }
        }
        Ok(found)
    }

    pub(crate) async fn profile_now(&self, user: &UserId) -> Result<Profile, StoreError> {
        let row = self.rows.get(Table::Users, &Key::new(user)).await?;
        Ok(row.map(|row| decode_profile(&row)).unwrap_or_default())
    }

    pub(crate) async fn update_profile_now(
        self: &Arc<Engine>,
        update: ProfileUpdate,
    ) -> Result<Profile, StoreError> {
        let _work = self.begin_write()?;
        let mut announced = None;
        if let Some(revoke) = &update.revoke {
            // With what is void already: a moment that lies before that says nothing by itself.
            let void = self.profile_now(&update.user).await?.revocations.with(revoke);
            self.announce_revocation(&update.user, revoke, &void).await?;
            announced = void.through();
        }
        let before = self
            .update_row(&update.user, |row| {
                let profile = update.applied_to(decode_profile(&row));
                Ok(Some(with_profile(row, &profile)))
            })
            .await?;
        let profile = update.applied_to(decode_profile(&before));
        if let Some(revoke) = &update.revoke {
            if announced < profile.revocations.through() {
                // Another came in between, and what is void now reaches further than was said.
                self.announce_revocation(&update.user, revoke, &profile.revocations).await?;
            }
            let (user, revocations) = (update.user, profile.revocations.clone());
            self.tell_change(CommittedChange::Revoked { user, revocations });
        }
        Ok(profile)
    }
}
