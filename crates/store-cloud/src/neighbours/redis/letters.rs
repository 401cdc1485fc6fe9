//! Several letters in one entry of a stream: each with its length before it.

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub fn pack(letters: &[Bytes]) -> Bytes {
    let mut packed = BytesMut::with_capacity(letters.iter().map(|letter| letter.len() + 4).sum());
    for letter in letters {
        packed.put_u32(u32::try_from(letter.len()).expect("news are far smaller than 4 GiB"));
        packed.put_slice(letter);
    }
    packed.freeze()
}

/// `None` when it was not packed here.
pub fn unpack(mut packed: Bytes) -> Option<Vec<Bytes>> {
    let mut letters = Vec::new();
    while packed.has_remaining() {
        let length = usize::try_from(packed.try_get_u32().ok()?).ok()?;
        if length > packed.len() {
            return None;
        }
        letters.push(packed.split_to(length));
    }
    Some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_out_as_they_went_in() {
        for letters in
            [vec![], vec![Bytes::new()], vec![Bytes::from("one"), Bytes::new(), Bytes::from("three")]]
        {
            assert_eq!(unpack(pack(&letters)), Some(letters));
        }
    }

    #[test]
    fn what_is_cut_short_is_not_a_letter() {
        let packed = pack(&[Bytes::from("one"), Bytes::from("two")]);
        for length in [1, 3, 5, 6, 8, packed.len() - 1] {
            assert_eq!(unpack(packed.slice(..length)), None, "{length}");
        }
    }
}
