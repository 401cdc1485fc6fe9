//! `bluetick user`: creates users, changes passwords, revokes tokens, and shows users.

use std::io::{self, IsTerminal};

use bluetick_auth::{PasswordRules, Passwords};
use bluetick_core::names::without_bidi_controls;
use bluetick_core::ports::{Random, SystemRandom};
use bluetick_core::{User, UserId};

use crate::cli::{
    PasswordArgs, Places, UserAddArgs, UserCommand, UserPasswordArgs, UserRevokeArgs, UserShowArgs,
};
use crate::failure::Failure;
use crate::figures::utc;
use crate::output::print;
use crate::prompt::ask_password;
use crate::settings::{Inputs, Loaded, Settings};
use crate::users::{NewUser, ShownUser, UserClient};

pub fn run(command: &UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::Add(arguments) => add(arguments),
        UserCommand::Password(arguments) => set_password(arguments),
        UserCommand::Revoke(arguments) => revoke(arguments),
        UserCommand::Show(arguments) => show(arguments),
    }
}

fn add(arguments: &UserAddArgs) -> Result<(), Failure> {
    let settings = settings(&arguments.places)?;
    let display_name = arguments.display_name.as_deref().map(display_name).transpose()?;
    let password = password_for(&arguments.name, arguments.password, settings.auth.password_rules())?;
    let user = NewUser { id: arguments.name.clone(), display_name, password: password.text.clone() };
    with(UserClient::open(&settings)?, |client| client.add(&user))?;
    eprintln!("bluetick: created user {}", arguments.name);
    password.print_if_generated()
}

fn set_password(arguments: &UserPasswordArgs) -> Result<(), Failure> {
    let settings = settings(&arguments.places)?;
    let password = password_for(&arguments.name, arguments.password, settings.auth.password_rules())?;
    with(UserClient::open_existing(&settings)?, |client| {
        client.set_password(&arguments.name, &password.text)
    })?;
    eprintln!("bluetick: {} has a new password", arguments.name);
    password.print_if_generated()
}

fn revoke(arguments: &UserRevokeArgs) -> Result<(), Failure> {
    let settings = settings(&arguments.places)?;
    with(UserClient::open_existing(&settings)?, |client| client.revoke(&arguments.name))?;
    eprintln!("bluetick: {} is logged out everywhere", arguments.name);
    Ok(())
}

fn show(arguments: &UserShowArgs) -> Result<(), Failure> {
    let settings = settings(&arguments.places)?;
    let user = with(UserClient::open_existing(&settings)?, |client| client.show(&arguments.name))?;
    print(&described(&user))
}

fn settings(places: &Places) -> Result<Settings, Failure> {
    Ok(Loaded::load(&Inputs::of_this_process(places.flags()))?.settings)
}

/// Closes the store even if `act` fails.
fn with<T>(client: UserClient, act: impl FnOnce(&UserClient) -> Result<T, Failure>) -> Result<T, Failure> {
    let done = act(&client);
    client.close();
    done
}

fn display_name(text: &str) -> Result<String, Failure> {
    let name = without_bidi_controls(text);
    let name = name.trim();
    let length_fits = (1..=User::DISPLAY_NAME_MAX_BYTES).contains(&name.len());
    if !length_fits || name.chars().any(char::is_control) {
        let most = User::DISPLAY_NAME_MAX_BYTES;
        return Err(Failure::usage(format!(
            "--display-name must have 1 to {most} bytes and no control characters"
        )));
    }
    Ok(name.into())
}

struct Password {
    text: String,
    generated: bool,
}

impl Password {
    /// Prints only the password to standard output, so that it can be piped.
    fn print_if_generated(&self) -> Result<(), Failure> {
        if self.generated { print(&format!("{}\n", self.text)) } else { Ok(()) }
    }
}

fn password_for(user: &UserId, arguments: PasswordArgs, rules: PasswordRules) -> Result<Password, Failure> {
    if arguments.generate {
        return Ok(Password { text: generate(&SystemRandom, rules), generated: true });
    }
    let unreadable = |error: io::Error| Failure::failed(format!("cannot read the password: {error}"));
    let text = if arguments.password_stdin {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map_err(unreadable)?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    } else if io::stdin().is_terminal() {
        let first = ask_password(&format!("Password for {user}: "))?;
        if ask_password("Repeat the password: ")? != first {
            return Err(Failure::usage("the two passwords differ"));
        }
        first
    } else {
        let advice = "use --password-stdin or --generate without a terminal";
        return Err(Failure::usage(format!("no password was given; {advice}")));
    };
    rules.check(user.as_str(), &text).map_err(Failure::usage)?;
    Ok(Password { text, generated: false })
}

/// Generates a password of 20 characters (100 bits), or more if the settings require a longer one.
/// The alphabet of 32 characters leaves out those that look alike.
fn generate(random: &dyn Random, rules: PasswordRules) -> String {
    /// Letters and digits without look-alikes. Exactly 32, so that a character takes 5 random bits
    /// without bias.
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = vec![0; rules.min_bytes.clamp(20, Passwords::MAX_BYTES)];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

fn described(user: &ShownUser) -> String {
    format!(
        "user_id       {}\ndisplay_name  {}\ncreated       {}\ncan log in    {}\n",
        user.id,
        user.display_name.as_deref().unwrap_or("-"),
        utc(user.created_at),
        if user.has_password { "yes" } else { "no" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_passwords_are_strong_and_distinct() {
        for min_bytes in [8, 30] {
            let rules = PasswordRules { min_bytes };
            let (one, other) = (generate(&SystemRandom, rules), generate(&SystemRandom, rules));
            assert_eq!(rules.check("alice", &one), Ok(()));
            assert_ne!(one, other);
        }
    }

    #[test]
    fn display_name_is_trimmed_and_its_length_is_limited() {
        assert_eq!(display_name("  Alice Liddell ").unwrap(), "Alice Liddell");
        for bad in ["", "   ", "a\u{7}b", &"x".repeat(129)] {
            assert!(display_name(bad).is_err(), "{bad:?}");
        }
    }
}
