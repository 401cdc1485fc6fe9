//! The user book of a running server, asked over HTTP with the admin key.

use std::net::SocketAddr;

use bluetick_auth::AdminKey;
use bluetick_core::{Timestamp, UserId};
use serde_json::{Value, json};

use super::http_client::{Answer, Client};
use super::{NewUser, ShownUser, no_such_user, user_exists};
use crate::failure::Failure;
use crate::settings::Settings;

pub struct ServerBook {
    client: Client,
}

impl ServerBook {
    pub fn open(settings: &Settings, address: SocketAddr) -> Result<ServerBook, Failure> {
        let data_dir = &settings.store.data_dir;
        let key = AdminKey::read(&settings.admin, data_dir)?.ok_or_else(|| {
            let file = AdminKey::file_in(data_dir);
            Failure::usage(format!(
                "a server on {address} uses the data directory, and its admin key is not in {}; \
                 give the key that it was started with as BLUETICK_ADMIN__KEY",
                file.display()
            ))
        })?;
        Ok(ServerBook { client: Client::new(address, key) })
    }

    pub fn add(&self, user: &NewUser) -> Result<(), Failure> {
        let mut body = json!({"user_id": user.id.as_str(), "password": user.password});
        if let Some(name) = &user.display_name {
            body["display_name"] = json!(name);
        }
        match self.call("POST", "/v1/users", Some(&body))? {
            Answer { status: 201, .. } => Ok(()),
            Answer { status: 409, .. } => Err(user_exists(&user.id)),
            other => Err(refused(&other)),
        }
    }

    pub fn set_password(&self, user: &UserId, password: &str) -> Result<(), Failure> {
        let path = format!("/v1/users/{}/password", escaped(user));
        match self.call("PUT", &path, Some(&json!({ "password": password })))? {
            Answer { status: 200 | 204, .. } => Ok(()),
            Answer { status: 404, .. } => Err(no_such_user(user)),
            other => Err(refused(&other)),
        }
    }

    pub fn show(&self, user: &UserId) -> Result<ShownUser, Failure> {
        match self.call("GET", &format!("/v1/users/{}", escaped(user)), None)? {
            Answer { status: 200, body } => Ok(shown(&body)),
            Answer { status: 404, .. } => Err(no_such_user(user)),
            other => Err(refused(&other)),
        }
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Failure> {
        self.client.call(method, path, body).map_err(|error| {
            Failure::failed(format!("the server on {} did not answer: {error}", self.client.address()))
        })
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

fn refused(answer: &Answer) -> Failure {
    let message = answer.body["error"]["message"].as_str().unwrap_or("no reason was given");
    match answer.status {
        401 | 403 => Failure::usage(format!("the running server does not accept this admin key: {message}")),
        status => Failure::failed(format!("the running server answered {status}: {message}")),
    }
}

/// A user_id as part of a path.
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
    fn a_user_id_of_any_user_base_fits_into_a_path() {
        let user = "auth0|5/é?#".parse().unwrap();
        assert_eq!(escaped(&user), "auth0%7C5%2F%C3%A9%3F%23");
    }
}
