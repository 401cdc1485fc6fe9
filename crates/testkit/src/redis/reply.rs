//! A minimal Redis client that sends one command per connection.

use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    Text(String),
    Number(i64),
    Refusal(String),
    Many(Vec<Reply>),
}

impl Reply {
    /// Returns the reply as text; empty for nil and arrays.
    pub fn text(&self) -> String {
        match self {
            Reply::Text(text) | Reply::Refusal(text) => text.clone(),
            Reply::Number(number) => number.to_string(),
            Reply::Nothing | Reply::Many(_) => String::new(),
        }
    }

    pub fn number(&self) -> i64 {
        self.text().parse().unwrap_or_else(|_| panic!("not a number: {self:?}"))
    }

    pub fn many(&self) -> &[Reply] {
        match self {
            Reply::Many(replies) => replies,
            _ => &[],
        }
    }
}

pub fn ask(port: u16, password: Option<&str>, words: &[&str]) -> std::io::Result<Reply> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream);
    if let Some(password) = password {
        write(reader.get_mut(), &["AUTH", password])?;
        read(&mut reader)?;
    }
    write(reader.get_mut(), words)?;
    read(&mut reader)
}

fn write(stream: &mut TcpStream, words: &[&str]) -> std::io::Result<()> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(bytes.as_bytes())
}

fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Reply> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    let Some(kind) = line.chars().next() else {
        return Err(Error::other("the server closed the connection"));
    };
    let rest = &line[1..];
    let length = || rest.parse::<i64>().map_err(Error::other);
    Ok(match kind {
        '+' => Reply::Text(rest.to_owned()),
        '-' => Reply::Refusal(rest.to_owned()),
        ':' => Reply::Number(length()?),
        '$' | '*' if length()? < 0 => Reply::Nothing,
        '$' => {
            let mut bytes = vec![0; usize::try_from(length()?).unwrap() + 2];
            reader.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        '*' => Reply::Many((0..length()?).map(|_| read(reader)).collect::<Result<_, _>>()?),
        _ => return Err(Error::other(format!("not a Redis reply: {line}"))),
    })
}
