//! Revocation of tokens before they expire: single tokens, or all tokens issued up to a time.

use std::fmt;
use std::sync::Arc;

use crate::Timestamp;

/// The fingerprint of a token: a digest of the signed part. The token cannot be reconstructed from
/// it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenPrint([u8; 16]);

impl TokenPrint {
    pub const fn from_bytes(bytes: [u8; 16]) -> TokenPrint {
        TokenPrint(bytes)
    }

    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for TokenPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The facts about a token that revocation needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenFacts {
    pub print: TokenPrint,
    /// When the token was issued. The Unix epoch if the token has no `iat`, so every revocation by
    /// time covers it.
    pub issued_at: Timestamp,
    /// When the token expires, including the leeway for clock skew.
    pub expires_at: Timestamp,
}

/// A request to revoke tokens, made at the time `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoke {
    pub what: Revoked,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// Revokes a single token.
    Token(TokenFacts),
    /// Revokes every token issued up to and including this time.
    Through(Timestamp),
}

/// The revoked tokens of one user. A revocation is never undone, and is kept at least until the
/// token expires.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Revocations(Option<Arc<RevocationRecord>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RevocationRecord {
    through: Option<Timestamp>,
    /// Single revoked tokens that `through` does not cover.
    tokens: Vec<TokenFacts>,
}

impl Revocations {
    /// Upper bound on the number of revoked single tokens per user. It bounds the profile row.
    /// Above it, `through` rises to the earliest issue time among them, which also revokes all
    /// other tokens issued until then.
    pub const MOST_TOKENS: usize = 64;

    /// How long a revoked token is kept after it expires, in milliseconds. The next start may raise
    /// the leeway, which extends tokens by up to an hour. A shorter value would make a revoked
    /// token valid again.
    const KEPT_AFTER_END_MS: i64 = 3_600_000;

    /// Creates the revocations from stored values.
    pub fn new(through: Option<Timestamp>, tokens: Vec<TokenFacts>) -> Revocations {
        let is_empty = through.is_none() && tokens.is_empty();
        Revocations((!is_empty).then(|| Arc::new(RevocationRecord { through, tokens })))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the time up to which all issued tokens are revoked.
    pub fn through(&self) -> Option<Timestamp> {
        self.0.as_ref().and_then(|kept| kept.through)
    }

    /// Returns the revoked single tokens that [`Revocations::through`] does not cover.
    pub fn tokens(&self) -> &[TokenFacts] {
        self.0.as_ref().map_or(&[], |kept| &kept.tokens)
    }

    /// Returns whether the token is revoked.
    pub fn voids(&self, token: &TokenFacts) -> bool {
        let Some(kept) = &self.0 else { return false };
        kept.through.is_some_and(|through| token.issued_at <= through)
            || kept.tokens.iter().any(|other| other.print == token.print)
    }

    /// Returns the issue time for a new token: `now`, or just above [`Revocations::through`] if
    /// that is later. So a new token is valid even after the clock was set back.
    pub fn issue_at(&self, now: Timestamp) -> Timestamp {
        self.through().map_or(now, |through| now.max(through.plus_millis(1)))
    }

    /// Returns the revocations with `revoke` added, without entries that are covered or long
    /// expired.
    pub fn with(&self, revoke: &Revoke) -> Revocations {
        let mut kept = self.0.as_deref().cloned().unwrap_or_default();
        match revoke.what {
            // Also cover the tokens that [`Revocations::issue_at`] placed just above the previous
            // time.
            Revoked::Through(moment) => {
                let last = kept.through.map(|through| through.plus_millis(1));
                kept.through = Some(last.map_or(moment, |last| moment.max(last)));
            }
            Revoked::Token(token) if self.voids(&token) => {}
            Revoked::Token(token) => kept.tokens.push(token),
        }
        let is_over =
            |token: &TokenFacts| token.expires_at.plus_millis(Revocations::KEPT_AFTER_END_MS) <= revoke.at;
        kept.tokens.retain(|token| !is_over(token));
        while kept.tokens.len() > Revocations::MOST_TOKENS {
            let earliest = kept.tokens.iter().map(|token| token.issued_at).min();
            kept.through = kept.through.max(earliest);
            kept.forget_covered();
        }
        kept.forget_covered();
        Revocations::new(kept.through, kept.tokens)
    }
}

impl RevocationRecord {
    fn forget_covered(&mut self) {
        let through = self.through;
        self.tokens.retain(|token| through.is_none_or(|through| token.issued_at > through));
    }
}

impl fmt::Debug for Revocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revocations")
            .field("through", &self.through())
            .field("tokens", &self.tokens())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn token(number: u8, issued: i64) -> TokenFacts {
        let mut print = [number; 16];
        print[..8].copy_from_slice(&issued.to_be_bytes());
        TokenFacts { print: TokenPrint(print), issued_at: at(issued), expires_at: at(issued + 10_000_000) }
    }

    fn revoke(what: Revoked, now: i64) -> Revoke {
        Revoke { what, at: at(now) }
    }

    #[test]
    fn revoking_one_token_leaves_other_tokens_valid() {
        let void = Revocations::default().with(&revoke(Revoked::Token(token(1, 50)), 60));
        assert!(void.voids(&token(1, 50)));
        assert!(!void.voids(&token(2, 50)) && !void.voids(&token(2, 10)));
    }

    #[test]
    fn revoking_all_tokens_keeps_one_issued_later_in_the_same_millisecond() {
        let void = Revocations::default().with(&revoke(Revoked::Through(at(50)), 50));
        assert!(void.voids(&token(1, 50)) && void.voids(&token(2, 0)));
        let next = void.issue_at(at(50));
        assert!(!void.voids(&token(3, next.millis())), "a token issued right after the revocation is valid");
        let again = void.with(&revoke(Revoked::Through(at(50)), 50));
        assert!(
            again.voids(&token(3, next.millis())),
            "a second revocation in the same millisecond covers it"
        );
        assert!(!again.voids(&token(4, again.issue_at(at(50)).millis())));
    }

    #[test]
    fn clock_going_backward_does_not_validate_revoked_tokens() {
        let void = Revocations::default().with(&revoke(Revoked::Through(at(5_000)), 5_000));
        let later = void.with(&revoke(Revoked::Through(at(40)), 40));
        assert!(later.voids(&token(1, 5_000)));
        assert_eq!(later.issue_at(at(40)), at(5_002));
    }

    #[test]
    fn expired_and_covered_revocations_are_dropped() {
        let ended = TokenFacts { expires_at: at(100), ..token(1, 50) };
        let void = Revocations::default().with(&revoke(Revoked::Token(ended), 60));
        let soon = void.with(&revoke(Revoked::Token(token(2, 70)), 3_600_099));
        assert_eq!(soon.tokens().len(), 2, "an expired token is kept for an hour");
        let later = void.with(&revoke(Revoked::Token(token(2, 70)), 3_600_100));
        assert_eq!(later.tokens(), [token(2, 70)]);
        assert_eq!(later.with(&revoke(Revoked::Through(at(70)), 80)).tokens(), []);
    }

    proptest! {
        #[test]
        fn revoked_token_stays_revoked_until_it_expires(
            acts in proptest::collection::vec((any::<bool>(), any::<u8>(), 0i64..500), 1..300),
        ) {
            let (mut void, mut gone) = (Revocations::default(), Vec::new());
            for (now, (one, number, issued)) in acts.into_iter().enumerate() {
                let facts = token(number, issued);
                let what = if one { Revoked::Token(facts) } else { Revoked::Through(at(issued / 8)) };
                let covered = TokenFacts { issued_at: at(issued / 8), ..facts };
                gone.push(if one { facts } else { covered });
                void = void.with(&revoke(what, i64::try_from(now).unwrap()));
                prop_assert!(void.tokens().len() <= Revocations::MOST_TOKENS);
                for token in &gone {
                    prop_assert!(void.voids(token));
                }
                let next = TokenFacts { issued_at: void.issue_at(at(0)), ..token(9, -1) };
                prop_assert!(!void.voids(&next), "a new token is valid");
            }
        }
    }
}
