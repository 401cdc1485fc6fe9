//! Manages users through a running server, over HTTP with the admin key.

use std::net::SocketAddr;
use std::time::Duration;

use bluetick_core::{Timestamp, UserId};
use serde_json::{Value, json};

use super::{NewUser, ShownUser, no_such_user, user_exists};
use crate::failure::Failure;
use crate::running::{JsonResponse, RunningServer, refused};
use crate::settings::Settings;

pub struct RemoteUsers {
    server: RunningServer,
}

impl RemoteUsers {
    pub fn open(settings: &Settings, address: SocketAddr) -> Result<RemoteUsers, Failure> {
        Ok(RemoteUsers { server: RunningServer::open(settings, address)? })
    }

    pub fn add(&self, user: &NewUser) -> Result<(), Failure> {
        let mut body = json!({"user_id": user.id.as_str(), "password": user.password});
        if let Some(name) = &user.display_name {
            body["display_name"] = json!(name);
        }
        match self.server.call("POST", "/v1/users", Some(&body))? {
            JsonResponse { status: 201, .. } => Ok(()),
            JsonResponse { status: 409, .. } => Err(user_exists(&user.id)),
            other => Err(refused(&other)),
        }
    }

    /// The server reserves the name and signs the token.
    pub fn mint(&self, user: &UserId, ttl: Duration) -> Result<String, Failure> {
        let body = json!({"user_id": user.as_str(), "ttl_s": ttl.as_secs()});
        match self.server.call("POST", "/v1/tokens", Some(&body))? {
            JsonResponse { status: 201, body } => Ok(body["token"].as_str().unwrap_or_default().to_owned()),
            other => Err(refused(&other)),
        }
    }

    pub fn set_password(&self, user: &UserId, password: &str) -> Result<(), Failure> {
        let path = format!("/v1/users/{}/password", escaped(user));
        match self.server.call("PUT", &path, Some(&json!({ "password": password })))? {
            JsonResponse { status: 200 | 204, .. } => Ok(()),
            JsonResponse { status: 404, .. } => Err(no_such_user(user)),
            other => Err(refused(&other)),
        }
    }

    pub fn revoke(&self, user: &UserId) -> Result<(), Failure> {
        match self.server.call("DELETE", &format!("/v1/users/{}/sessions", escaped(user)), None)? {
            JsonResponse { status: 204, .. } => Ok(()),
            other => Err(refused(&other)),
        }
    }

    pub fn show(&self, user: &UserId) -> Result<ShownUser, Failure> {
        match self.server.call("GET", &format!("/v1/users/{}", escaped(user)), None)? {
            JsonResponse { status: 200, body } => Ok(shown(&body)),
            JsonResponse { status: 404, .. } => Err(no_such_user(user)),
            other => Err(refused(&other)),
        }
    }
}

fn shown(body: &Value) -> ShownUser {
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    ShownUser {
        id: text("user_id").unwrap_or_default(),
        display_name: text("display_name"),
        created_at: Timestamp::from_millis(body["created_at"].as_i64().unwrap_or_default()),
        has_password: body["has_password"].as_bool().unwrap_or_default(),
    }
}

/// Percent-encodes a user_id for a path.
fn escaped(user: &UserId) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    user.as_str()
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_user_id_is_encoded_into_a_url_path() {
        let user = "auth0|5/é?#".parse().unwrap();
        assert_eq!(escaped(&user), "auth0%7C5%2F%C3%A9%3F%23");
    }
}
