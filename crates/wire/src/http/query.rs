//! The part of an address behind the question mark. Values are numbers, names and cursors, so nothing in it is ever
//! escaped.

use crate::BadInput;

/// The values of the parameters called `names`, in that order. Those that nobody knows are passed over.
pub(super) fn values<'q, const N: usize>(
    query: &'q str,
    names: [&str; N],
) -> Result<[Option<&'q str>; N], BadInput> {
    let mut values = [None; N];
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(at) = names.iter().position(|known| *known == name) else { continue };
        if values[at].replace(value).is_some() {
            return Err(BadInput::field(name, "given more than once"));
        }
    }
    Ok(values)
}
