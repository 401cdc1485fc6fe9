//! One command or script for one slot, and what came back.

use std::sync::LazyLock;

use ::redis::{Cmd, Value};

use crate::hints::Away;

/// A file of `src/scripts`. Run by its hash; sent whole where the server does not know it.
pub struct Script {
    pub(super) source: &'static str,
    hash: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(pub static $name: Script = {
            // Every script starts with what they all need, since Redis has no other way to share it.
            const SOURCE: &str =
                concat!(include_str!("../scripts/life.lua"), include_str!(concat!("../scripts/", $file)));
            Script { source: SOURCE, hash: LazyLock::new(|| ::redis::Script::new(SOURCE).get_hash().to_owned()) }
        };)*
        pub(super) static ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    RESERVE = "reserve.lua",
    SEED = "seed.lua",
    GLANCE = "glance.lua",
    SENT = "sent.lua",
    MEMBERS = "members.lua",
    REGISTRY = "registry.lua",
    TOUCH = "touch.lua",
    PENDING = "pending.lua",
    SHELVE = "shelve.lua",
    INBOX = "inbox.lua",
    FILL = "fill.lua",
    CONNECT = "connect.lua",
    BEAT = "beat.lua",
    POST = "post.lua",
    LETTER_BOX = "letter_box.lua",
}

/// Words of a call. The keys of one call share a hash tag, so that one server has them all.
pub struct Call {
    pub(super) slot: u16,
    what: What,
    keys: usize,
    words: Vec<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum What {
    Script(&'static Script),
    Command(&'static str),
}

impl Call {
    /// The first key is named here, more by [`Call::key`] before any argument.
    pub fn script(script: &'static Script, key: &str) -> Call {
        Call { slot: slot(key.as_bytes()), what: What::Script(script), keys: 1, words: vec![key.into()] }
    }

    pub fn command(name: &'static str, key: &str) -> Call {
        Call { slot: slot(key.as_bytes()), what: What::Command(name), keys: 1, words: vec![key.into()] }
    }

    pub fn key(mut self, key: &str) -> Call {
        debug_assert_eq!(self.keys, self.words.len(), "keys come before arguments");
        debug_assert_eq!(self.slot, slot(key.as_bytes()), "keys of one call share a hash tag");
        self.keys += 1;
        self.words.push(key.into());
        self
    }

    pub fn bytes(mut self, word: &[u8]) -> Call {
        self.words.push(word.to_vec());
        self
    }

    pub fn text(self, word: &str) -> Call {
        self.bytes(word.as_bytes())
    }

    pub fn number(self, number: impl Into<i128>) -> Call {
        self.bytes(number.into().to_string().as_bytes())
    }

    pub(super) fn is_script(&self) -> bool {
        matches!(self.what, What::Script(_))
    }

    /// With `whole`, a script's text in place of its hash.
    pub(super) fn to_command(&self, whole: bool) -> Cmd {
        let mut command = match self.what {
            What::Command(name) => ::redis::cmd(name),
            What::Script(script) => {
                let mut command = ::redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
                command.arg(if whole { script.source } else { script.hash.as_str() }).arg(self.keys);
                command
            }
        };
        for word in &self.words {
            command.arg(word.as_slice());
        }
        command
    }
}

/// Which of the 16,384 slots of a cluster a key belongs to.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let length = key[open + 1..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[open + 1..open + 1 + length])
    });
    crc16(tag.unwrap_or(key)) & 0x3fff
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// The answer has not the form that was asked for: somebody else uses our keys, or another version of us.
pub fn odd() -> Away {
    Away("an answer cannot be read".to_owned())
}

pub fn number(value: &Value) -> Result<i64, Away> {
    match value {
        Value::Int(number) => Ok(*number),
        Value::Nil => Ok(0),
        Value::BulkString(bytes) => {
            std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or_else(odd)
        }
        _ => Err(odd()),
    }
}

pub fn unsigned(value: &Value) -> Result<u64, Away> {
    u64::try_from(number(value)?).map_err(|_| odd())
}

pub fn list(value: &Value) -> Result<&[Value], Away> {
    match value {
        Value::Array(values) => Ok(values),
        Value::Nil => Ok(&[]),
        _ => Err(odd()),
    }
}

pub fn bytes(value: &Value) -> Result<&[u8], Away> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.as_bytes()),
        _ => Err(odd()),
    }
}

pub fn text(value: &Value) -> Result<&str, Away> {
    std::str::from_utf8(bytes(value)?).map_err(|_| odd())
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
    }
}
