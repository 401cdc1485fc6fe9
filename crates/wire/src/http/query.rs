//! Parses URL query strings (form encoding): `%XX` for a byte, `+` for a space.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::BadInput;

/// Returns the decoded values of the parameters `names`, in that order. Unknown parameters are
/// ignored. A repeated parameter is an error.
pub(super) fn values<'q, const N: usize>(
    query: &'q str,
    names: [&str; N],
) -> Result<[Option<Cow<'q, str>>; N], BadInput> {
    let mut values = [const { None }; N];
    for (name, value) in pairs(query) {
        let Some(at) = names.iter().position(|known| *known == name) else { continue };
        if values[at].replace(decoded(names[at], value)?).is_some() {
            return Err(BadInput::field(names[at], "given more than once"));
        }
    }
    Ok(values)
}

/// Returns the parameters with decoded names and raw values.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    query.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        // A name that is not UTF-8 matches no known parameter.
        (percent_decode_str(name).decode_utf8_lossy(), value)
    })
}

/// Decodes a value. Fails if the bytes are not UTF-8.
pub(super) fn decoded<'q>(name: &str, value: &'q str) -> Result<Cow<'q, str>, BadInput> {
    let invalid = |_| BadInput::field(name, "is not UTF-8");
    if value.contains('+') {
        let spaced = value.replace('+', " ");
        let text = percent_decode_str(&spaced).decode_utf8().map_err(invalid)?;
        return Ok(Cow::Owned(text.into_owned()));
    }
    percent_decode_str(value).decode_utf8().map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoded_names_and_values_equal_plain_ones() {
        let [limit, cursor] = values("limit=%32%30&%63ursor=o%31.x&other=%FF", ["limit", "cursor"]).unwrap();
        assert_eq!((limit.as_deref(), cursor.as_deref()), (Some("20"), Some("o1.x")));
        let [spaced] = values("limit=2+0", ["limit"]).unwrap();
        assert_eq!(spaced.as_deref(), Some("2 0"));
    }

    #[test]
    fn query_with_invalid_utf8_or_repeated_names_is_refused() {
        assert!(values("limit=%FF", ["limit"]).is_err());
        assert!(values("limit=1&%6Cimit=2", ["limit"]).is_err());
    }
}
