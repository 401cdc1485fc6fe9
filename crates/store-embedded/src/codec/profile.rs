//! User data besides the account, with the same encoding in the log and in a row.

use bluetick_core::{Profile, Revocations, Timestamp, TokenFacts, TokenPrint};

use super::event::put_timestamp;
use super::{DecodeError, Reader, put_varint};

/// Bit of the first byte: the user hides its presence. Stored, so the value must never change.
const HIDES_PRESENCE: u8 = 1;
/// Bit of the first byte: revoked tokens follow, and a byte before each of the two times states
/// whether it is present. Stored, so the value must never change.
const HAS_REVOCATIONS: u8 = 2;

/// Writes a profile. A profile without revoked tokens keeps the encoding from before revocation
/// existed.
pub fn put_profile(out: &mut Vec<u8>, profile: &Profile) {
    let hides = if profile.hides_presence { HIDES_PRESENCE } else { 0 };
    let revocations = &profile.revocations;
    if revocations.is_empty() {
        out.push(hides);
        if let Some(at) = profile.last_seen_at {
            put_timestamp(out, at);
        }
        return;
    }
    out.push(hides | HAS_REVOCATIONS);
    for moment in [profile.last_seen_at, revocations.through()] {
        out.push(u8::from(moment.is_some()));
        if let Some(at) = moment {
            put_timestamp(out, at);
        }
    }
    put_varint(out, revocations.tokens().len() as u64);
    for token in revocations.tokens() {
        out.extend_from_slice(&token.print.bytes());
        put_timestamp(out, token.issued_at);
        put_timestamp(out, token.expires_at);
    }
}

pub fn read_profile(reader: &mut Reader<'_>) -> Result<Profile, DecodeError> {
    let bits = reader.u8()?;
    if bits & !(HIDES_PRESENCE | HAS_REVOCATIONS) != 0 {
        return Err(DecodeError::Unknown { what: "profile", value: bits.into() });
    }
    let hides_presence = bits & HIDES_PRESENCE != 0;
    if bits & HAS_REVOCATIONS == 0 {
        let exists = !reader.is_empty();
        let last_seen_at = exists.then(|| read_timestamp(reader)).transpose()?;
        return Ok(Profile { last_seen_at, hides_presence, revocations: Revocations::default() });
    }
    let last_seen_at = read_optional_timestamp(reader)?;
    let through = read_optional_timestamp(reader)?;
    let tokens = (0..reader.varint()?).map(|_| read_void_token(reader)).collect::<Result<_, _>>()?;
    Ok(Profile { last_seen_at, hides_presence, revocations: Revocations::new(through, tokens) })
}

fn read_optional_timestamp(reader: &mut Reader<'_>) -> Result<Option<Timestamp>, DecodeError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => read_timestamp(reader).map(Some),
        value => Err(DecodeError::Unknown { what: "moment", value: value.into() }),
    }
}

fn read_void_token(reader: &mut Reader<'_>) -> Result<TokenFacts, DecodeError> {
    let print = TokenPrint::from_bytes(reader.array()?);
    Ok(TokenFacts { print, issued_at: read_timestamp(reader)?, expires_at: read_timestamp(reader)? })
}

fn read_timestamp(reader: &mut Reader<'_>) -> Result<Timestamp, DecodeError> {
    reader.signed().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use bluetick_core::{Revoke, Revoked};

    use super::super::testing::hex;
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn bytes(profile: &Profile) -> String {
        let mut out = Vec::new();
        put_profile(&mut out, profile);
        assert_eq!(read_profile(&mut Reader(&out)).as_ref(), Ok(profile));
        hex(&out)
    }

    #[test]
    fn profile_with_and_without_revoked_tokens_matches_stored_bytes() {
        let mut profile = Profile::default();
        assert_eq!(bytes(&profile), "00");
        profile.hides_presence = true;
        profile.last_seen_at = Some(at(3));
        assert_eq!(bytes(&profile), "0106");
        let token =
            TokenFacts { print: TokenPrint::from_bytes([7; 16]), issued_at: at(40), expires_at: at(300) };
        let revoke = Revoke { what: Revoked::Through(at(20)), at: at(50) };
        profile.revocations = profile.revocations.with(&revoke);
        assert_eq!(bytes(&profile), "03010601 2800");
        let revoke = Revoke { what: Revoked::Token(token), at: at(50) };
        profile.revocations = profile.revocations.with(&revoke);
        assert_eq!(bytes(&profile), "03010601 28010707 07070707 07070707 07070707 070750d8 04");
        let fresh = Profile { revocations: Revocations::default().with(&revoke), ..Profile::default() };
        assert_eq!(bytes(&fresh), "02000001 07070707 07070707 07070707 07070707 50d804");
    }

    #[test]
    fn profile_of_later_version_is_refused() {
        assert!(read_profile(&mut Reader(&[4])).is_err());
        assert!(read_profile(&mut Reader(&[2, 2])).is_err());
        assert!(read_profile(&mut Reader(&[2, 0, 0, 1, 7])).is_err(), "half a token");
    }
}
