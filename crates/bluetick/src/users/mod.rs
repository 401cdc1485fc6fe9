//! Manages users, in the store directly or through the server that uses it.

mod local;
mod remote;

use std::time::Duration;

use bluetick_core::{Timestamp, UserId};

use bluetick_server::audit::{Act, Subject};

use self::local::LocalUsers;
use self::remote::RemoteUsers;
use crate::audit::audited;
use crate::failure::Failure;
use crate::settings::{Settings, StoreEngine};
use crate::store::CannotOpen;

pub struct NewUser {
    pub id: UserId,
    pub display_name: Option<String>,
    pub password: String,
}

/// The public data of a user.
#[derive(Debug, PartialEq, Eq)]
pub struct ShownUser {
    pub id: String,
    pub display_name: Option<String>,
    pub created_at: Timestamp,
    pub has_password: bool,
}

pub enum UserClient {
    /// Holds the settings too, because they name the audit trail.
    Store(LocalUsers, Box<Settings>),
    Server(RemoteUsers),
}

impl UserClient {
    /// Opens the store for existing users. A missing data directory is a usage error, because the
    /// path is probably mistyped.
    pub fn open_existing(settings: &Settings) -> Result<UserClient, Failure> {
        let data_dir = &settings.store.data_dir;
        if settings.store.engine == StoreEngine::Embedded && !data_dir.exists() {
            return Err(Failure::usage(format!("the data directory {} does not exist", data_dir.display())));
        }
        UserClient::open(settings)
    }

    pub fn open(settings: &Settings) -> Result<UserClient, Failure> {
        match LocalUsers::open(settings) {
            Ok(client) => Ok(UserClient::Store(client, Box::new(settings.clone()))),
            Err(CannotOpen::InUse { address: Some(address), .. }) => {
                RemoteUsers::open(settings, address).map(UserClient::Server)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub fn add(&self, user: &NewUser) -> Result<(), Failure> {
        match self {
            UserClient::Store(client, settings) => {
                let subject = Some(Subject::user(&user.id));
                audited(settings, Act::UserCreate, subject, || client.add(user))
            }
            UserClient::Server(client) => client.add(user),
        }
    }

    /// Issues a token after reserving its name. `sign` signs it if no server is running.
    pub fn mint(
        &self,
        user: &UserId,
        ttl: Duration,
        sign: impl FnOnce() -> Result<String, Failure>,
    ) -> Result<String, Failure> {
        match self {
            UserClient::Store(client, settings) => {
                audited(settings, Act::TokenMint, Some(Subject::user(user)), || {
                    let token = sign()?;
                    client.reserve(user)?;
                    Ok(token)
                })
            }
            UserClient::Server(client) => client.mint(user, ttl),
        }
    }

    pub fn set_password(&self, user: &UserId, password: &str) -> Result<(), Failure> {
        match self {
            UserClient::Store(client, settings) => {
                let subject = Some(Subject::user(user));
                audited(settings, Act::UserPassword, subject, || client.set_password(user, password))
            }
            UserClient::Server(client) => client.set_password(user, password),
        }
    }

    /// Revokes every token issued to the user so far.
    pub fn revoke(&self, user: &UserId) -> Result<(), Failure> {
        match self {
            UserClient::Store(client, settings) => {
                audited(settings, Act::UserRevoke, Some(Subject::user(user)), || client.revoke(user))
            }
            UserClient::Server(client) => client.revoke(user),
        }
    }

    pub fn show(&self, user: &UserId) -> Result<ShownUser, Failure> {
        match self {
            UserClient::Store(client, _) => client.show(user),
            UserClient::Server(client) => client.show(user),
        }
    }

    /// Closes the store. Completed changes are durable before.
    pub fn close(self) {
        if let UserClient::Store(client, _) = self {
            client.close();
        }
    }
}

fn no_such_user(user: &UserId) -> Failure {
    Failure::failed(format!("there is no user {user}"))
}

fn user_exists(user: &UserId) -> Failure {
    Failure::failed(format!(
        "the user {user} exists, or another user whose name looks like it. Change the password of a user \
         who exists with `bluetick user password`; choose another name if a different user has this one"
    ))
}
