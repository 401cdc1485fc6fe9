//! The validity period of a certificate. This parser reads only the DER elements up to the two
//! times. It verifies no signature; clients do that.

use bluetick_core::Timestamp;

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CertificateValidity {
    from: Timestamp,
    until: Timestamp,
}

/// Why a certificate is not valid now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValidityProblem {
    NotYetValid,
    Expired,
}

/// DER tag of a SEQUENCE (X.690). With a wrong tag, no certificate has a validity, and an expired
/// one is not logged. This also holds for the tags below.
const SEQUENCE: u8 = 0x30;
/// DER tag of the optional version field of a certificate.
const EXPLICIT_VERSION: u8 = 0xa0;
/// DER tag of a time with a two-digit year.
const UTC_TIME: u8 = 0x17;
/// DER tag of a time with a four-digit year.
const GENERALIZED_TIME: u8 = 0x18;

impl CertificateValidity {
    /// Reads the validity period of a DER certificate. Returns `None` if the bytes are not a
    /// certificate.
    pub fn of(certificate: &[u8]) -> Option<CertificateValidity> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (mut rest, _) = element(certificate, SEQUENCE)?;
        if rest.first() == Some(&EXPLICIT_VERSION) {
            rest = any_element(rest)?.2;
        }
        // Serial number, signature algorithm, issuer.
        for _ in 0..3 {
            rest = any_element(rest)?.2;
        }
        let (days, _) = element(rest, SEQUENCE)?;
        let (from, days) = time(days)?;
        let (until, _) = time(days)?;
        Some(CertificateValidity { from, until })
    }

    /// Returns why the certificate is not valid at `now`; `None` if it is valid.
    pub fn problem_at(&self, now: Timestamp) -> Option<ValidityProblem> {
        if now < self.from {
            Some(ValidityProblem::NotYetValid)
        } else if now > self.until {
            Some(ValidityProblem::Expired)
        } else {
            None
        }
    }
}

/// Returns the content of the first element and the bytes after it, if its tag is `kind`.
fn element(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any_element(bytes)?;
    (found == kind).then_some((content, rest))
}

/// Returns tag, content and following bytes of the first DER element.
fn any_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, bytes) = bytes.split_first()?;
    let (&length, bytes) = bytes.split_first()?;
    let (length, bytes) = match length.checked_sub(0x80) {
        None => (usize::from(length), bytes),
        // The length has this many bytes; a certificate needs at most four.
        Some(digits @ 1..=4) => {
            let (digits, bytes) = bytes.split_at_checked(usize::from(digits))?;
            (digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit)), bytes)
        }
        Some(_) => return None,
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((kind, content, rest))
}

/// Reads a UTCTime or GeneralizedTime, and returns it with the bytes after it.
fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (kind, text, rest) = any_element(bytes)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, text) = match kind {
        // RFC 5280: two-digit years mean 1950 to 2049.
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text)
        }
        GENERALIZED_TIME => {
            let (year, text) = text.split_at_checked(4)?;
            (year.parse().ok()?, text)
        }
        _ => return None,
    };
    let mut numbers = [0_i64; 5];
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = text.get(index * 2..index * 2 + 2)?.parse().ok()?;
    }
    let [month, day, hour, minute, second] = numbers;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some((Timestamp::from_millis(seconds * 1000), rest))
}

/// Returns the number of days since 1970-01-01 in the Gregorian calendar. Years start in March
/// here, so that a leap day is the last day of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + (day - 1) - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes the part of a certificate that the parser reads.
    fn certificate(from: (u8, &str), until: (u8, &str)) -> Vec<u8> {
        let wrap = |kind: u8, content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[kind, 0x82], &length[..], content].concat()
        };
        let days = [wrap(from.0, from.1.as_bytes()), wrap(until.0, until.1.as_bytes())].concat();
        let fields = [
            wrap(EXPLICIT_VERSION, &[2, 1, 2]),
            vec![2, 1, 7],
            wrap(SEQUENCE, &[6, 1, 1]),
            wrap(SEQUENCE, &[]),
            wrap(SEQUENCE, &days),
            wrap(SEQUENCE, &[]),
        ];
        wrap(SEQUENCE, &wrap(SEQUENCE, &fields.concat()))
    }

    #[test]
    fn validity_is_parsed_from_utc_time_and_generalized_time() {
        let bytes = certificate((UTC_TIME, "240229235959Z"), (GENERALIZED_TIME, "20500101000000Z"));
        let read = CertificateValidity::of(&bytes).unwrap();
        assert_eq!(read.from, Timestamp::from_millis(1_709_251_199_000));
        assert_eq!(read.until, Timestamp::from_millis(2_524_608_000_000));
        let old = certificate((UTC_TIME, "700101000000Z"), (UTC_TIME, "491231235959Z"));
        let old = CertificateValidity::of(&old).unwrap();
        assert_eq!((old.from.millis(), old.until.millis()), (0, 2_524_607_999_000));
    }

    #[test]
    fn certificate_is_invalid_before_its_start_and_after_its_end() {
        let bytes = certificate((UTC_TIME, "700101000010Z"), (UTC_TIME, "700101000020Z"));
        let validity = CertificateValidity::of(&bytes).unwrap();
        for (second, expected) in [
            (9, Some(ValidityProblem::NotYetValid)),
            (10, None),
            (20, None),
            (21, Some(ValidityProblem::Expired)),
        ] {
            assert_eq!(validity.problem_at(Timestamp::from_millis(second * 1000)), expected, "{second}");
        }
    }

    #[test]
    fn truncated_or_malformed_certificate_has_no_validity() {
        let bytes = certificate((UTC_TIME, "240229235959Z"), (UTC_TIME, "250229235959Z"));
        for length in 0..bytes.len() {
            assert_eq!(CertificateValidity::of(&bytes[..length]), None, "{length}");
        }
        for wrong in
            ["24022923595", "2402292359-9Z", "241329235959Z", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}Z"]
        {
            assert_eq!(
                CertificateValidity::of(&certificate((UTC_TIME, wrong), (UTC_TIME, "250101000000Z"))),
                None
            );
        }
    }
}
