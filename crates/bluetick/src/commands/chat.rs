//! `bluetick chat`: determines server and user, logs in, then starts the terminal client.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use bluetick_client::wire::bodies::Session;
use bluetick_client::{
    ApiError, Client, ClientSettings, FileStorage, FixedToken, Server, ServerUrl, StartError, log_in,
    log_out, sign_up, who_is,
};
use bluetick_core::UserId;
use bluetick_core::time::{Clock, SystemClock};
use bluetick_terminal::ExitReason;
use serde_json::{Value, json};

use crate::cli::ChatArgs;
use crate::failure::Failure;
use crate::prompt::{ask, ask_password};

/// Server to connect to without `--server` and without an earlier log-in.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
/// Environment variable with a token that replaces the log-in.
const TOKEN_VARIABLE: &str = "BLUETICK_TOKEN";
/// File with the token of the last log-in, in the directory of the session. With another name,
/// every user must log in again.
const SESSION_FILE: &str = "session.json";
/// Minimum remaining lifetime of a stored token, in milliseconds. A shorter-lived token expires
/// soon after the start, so the command asks for the password instead.
const GOOD_FOR_MS: i64 = 60_000;

pub fn run(arguments: &ChatArgs) -> Result<(), Failure> {
    let home = Home::find(arguments)?;
    let last = home.last();
    let url = match (&arguments.server, &last) {
        (Some(url), _) => url.clone(),
        (None, Some((url, _))) => url.clone(),
        (None, None) => DEFAULT_SERVER.parse().map_err(Failure::failed)?,
    };
    let known = last.filter(|(last_url, _)| *last_url == url).map(|(_, user)| user);
    let user = arguments.user.clone().or(known);
    if arguments.log_out {
        return forget(arguments, &home, &url, user);
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage("chat needs a terminal as standard input and output"));
    }
    let server = server(arguments, &url)?;
    runtime()?.block_on(async {
        let identity = identify(arguments, &home, &server, user).await?;
        let directory = home.of(&url, &identity.user);
        let storage = FileStorage::open(&directory).map_err(Failure::failed)?;
        home.remember(&url, &identity.user);
        let LoggedInUser { user, token } = identity;
        let settings = ClientSettings::new(server, user.clone(), FixedToken(token));
        let client = Client::start(settings, storage).await.map_err(|error| match error {
            StartError::OtherUser(other) => Failure::usage(other),
            other => Failure::failed(other),
        })?;
        let look = bluetick_terminal::look_of(|name| std::env::var(name).ok());
        match bluetick_terminal::run(client, &url.to_string(), look).await.map_err(Failure::failed)? {
            ExitReason::Left => Ok(()),
            ExitReason::LoggedOut => {
                // Delete the stored token, so that the next start asks for the password.
                let _forgotten = fs::remove_file(directory.join(SESSION_FILE));
                Err(Failure::failed("the log-in has expired; start again to log in"))
            }
            ExitReason::OtherUser => {
                let _forgotten = fs::remove_file(directory.join(SESSION_FILE));
                Err(Failure::usage(format!("the token does not belong to {user}")))
            }
        }
    })
}

/// The server, with the root certificates to trust if it uses TLS.
fn server(arguments: &ChatArgs, url: &ServerUrl) -> Result<Server, Failure> {
    let Some(file) = &arguments.ca_file else {
        return Server::new(url.clone()).map_err(Failure::failed);
    };
    let unusable = |error| Failure::usage(format!("cannot use --ca-file {}: {error}", file.display()));
    let roots = fs::read(file).map_err(unusable)?;
    Server::trusting(url.clone(), &roots).map_err(unusable)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().map_err(Failure::failed)
}

/// Logs out: revokes the stored token at the server and deletes everything stored for the user.
fn forget(arguments: &ChatArgs, home: &Home, url: &ServerUrl, user: Option<UserId>) -> Result<(), Failure> {
    let user = user.ok_or_else(|| Failure::usage("no user is logged in on this machine; pass --user"))?;
    let directory = home.of(url, &user);
    // Opening the storage fails if another client uses it.
    let storage = FileStorage::open(&directory).map_err(Failure::failed)?;
    let server = server(arguments, url)?;
    let told = match kept_token(&directory) {
        Some(token) => runtime()?.block_on(log_out(&server, &token, false)),
        None => Ok(()),
    };
    fs::remove_dir_all(&directory).map_err(Failure::failed)?;
    drop(storage);
    eprintln!("bluetick: logged out {user} at {url} and deleted the local data");
    // Any other error means that the token was already invalid.
    if let Err(ApiError::Unreachable(reason)) = told {
        eprintln!(
            "bluetick: the server was not reached, so the token stays valid until it expires: {reason}"
        );
    }
    Ok(())
}

struct LoggedInUser {
    user: UserId,
    token: String,
}

/// Identifies the user by the given token, by the stored log-in, or by asking for a password.
async fn identify(
    arguments: &ChatArgs,
    home: &Home,
    server: &Server,
    user: Option<UserId>,
) -> Result<LoggedInUser, Failure> {
    let given = arguments
        .token
        .clone()
        .or_else(|| std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()));
    if let Some(token) = given.filter(|_| !arguments.sign_up) {
        return match who_is(server, &token).await {
            Ok(profile)
                if user.as_ref().is_some_and(|user| *user != profile.user_id && arguments.user.is_some()) =>
            {
                Err(Failure::usage(format!("the token belongs to {}", profile.user_id)))
            }
            Ok(profile) => Ok(LoggedInUser { user: profile.user_id, token }),
            // Accept the token while the server is unreachable; the server checks it on connecting.
            Err(ApiError::Unreachable(_)) if user.is_some() => {
                user.map(|user| LoggedInUser { user, token }).ok_or_else(|| Failure::usage("no user"))
            }
            Err(error) => Err(refused(server, &error)),
        };
    }
    let user = match user {
        Some(user) => user,
        None => ask("User: ")?.parse().map_err(Failure::usage)?,
    };
    let place = home.of(&server.url, &user);
    if !arguments.sign_up
        && let Some(token) = kept_token(&place)
    {
        return Ok(LoggedInUser { user, token });
    }
    let session = if arguments.sign_up { join(server, &user).await? } else { enter(server, &user).await? };
    keep_token(&place, &session)?;
    Ok(LoggedInUser { user: session.user_id, token: session.token })
}

async fn enter(server: &Server, user: &UserId) -> Result<Session, Failure> {
    let password = ask_password(&format!("Password of {user} at {}: ", server.url))?;
    log_in(server, user, &password).await.map_err(|error| match &error {
        ApiError::Refused { code, .. } if code == "invalid_credentials" => {
            Failure::usage("user and password do not match; --sign-up creates a new account")
        }
        error => refused(server, error),
    })
}

async fn join(server: &Server, user: &UserId) -> Result<Session, Failure> {
    let password = ask_password(&format!("New password of {user} at {}: ", server.url))?;
    if ask_password("Repeat the password: ")? != password {
        return Err(Failure::usage("the two passwords differ"));
    }
    sign_up(server, user, &password, None).await.map_err(|error| refused(server, &error))
}

fn refused(server: &Server, error: &ApiError) -> Failure {
    match error {
        ApiError::Unreachable(reason) => {
            Failure::failed(format!("{} cannot be reached: {reason}", server.url))
        }
        other => Failure::usage(other),
    }
}

fn kept_token(place: &Path) -> Option<String> {
    let kept: Value = serde_json::from_slice(&fs::read(place.join(SESSION_FILE)).ok()?).ok()?;
    let is_good = kept["expires_at"].as_i64()? > SystemClock.now().millis() + GOOD_FOR_MS;
    is_good.then(|| kept["token"].as_str().map(str::to_owned))?
}

/// Stores the token. Only the owner can read the file, from its creation on.
fn keep_token(place: &Path, session: &Session) -> Result<(), Failure> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", place.display()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(failed)?;
    let kept = json!({"token": session.token, "expires_at": session.expires_at.millis()});
    let new = place.join("session.json.new");
    let mut file = fs::OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(failed)?;
    file.write_all(kept.to_string().as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(new, place.join(SESSION_FILE)).map_err(failed)
}

/// The directory where this client stores its data, for all servers and users.
struct Home(PathBuf);

impl Home {
    fn find(arguments: &ChatArgs) -> Result<Home, Failure> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let usual = || {
            let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
            data.map(|data| data.join("bluetick"))
        };
        let home = arguments.data_dir.clone().or_else(usual);
        home.map(Home).ok_or_else(|| Failure::usage("the home directory is unknown; pass --data-dir"))
    }

    fn of(&self, url: &ServerUrl, user: &UserId) -> PathBuf {
        self.0.join("chat").join(below(&url.to_string())).join(below(user.as_str()))
    }

    /// The server and the user of the last start.
    fn last(&self) -> Option<(ServerUrl, UserId)> {
        let last: Value = serde_json::from_slice(&fs::read(self.0.join("chat/last.json")).ok()?).ok()?;
        Some((last["server"].as_str()?.parse().ok()?, last["user"].as_str()?.parse().ok()?))
    }

    fn remember(&self, url: &ServerUrl, user: &UserId) {
        let last = json!({"server": url.to_string(), "user": user.as_str()});
        // Best effort: if this fails, the next start needs the flags again.
        let _kept = fs::write(self.0.join("chat/last.json"), last.to_string());
    }
}

/// Maps a text to a relative path; different texts map to different paths. Long texts become nested
/// directories, because a file name has at most 255 bytes.
fn below(text: &str) -> PathBuf {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let spelled =
        |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    text.as_bytes().chunks(64).map(|part| part.iter().map(spelled).collect::<String>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_directory_names_are_distinct_and_stay_inside_the_parent() {
        assert_eq!(below("../alice"), PathBuf::from("%2E%2E%2Falice"));
        assert_eq!(below("."), PathBuf::from("%2E"));
        assert_eq!(below("Alice"), PathBuf::from("%41lice"));
        let longest = below(&"ü".repeat(64));
        assert!(longest.components().all(|part| part.as_os_str().len() <= 255), "{longest:?}");
    }
}
