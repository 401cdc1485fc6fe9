//! The layout of one LMDB page. All offsets and sizes are in bytes, and must match LMDB's `mdb.c`.

/// First field of an LMDB root page.
pub const MAGIC: u32 = 0xBEEF_C0DE;
/// Accepted versions of the LMDB file format. The check reports a file of another version as
/// damaged.
pub const VERSIONS: [u32; 2] = [1, 999];
/// Length of a page header.
pub const HEADER_BYTES: usize = 16;
/// Length of a node header.
pub const NODE_BYTES: usize = 8;
/// Length of a tree record.
pub const TREE_BYTES: usize = 48;
/// Length of the body of a root page.
pub const META_BYTES: usize = 24 + 2 * TREE_BYTES + 16;
/// The root page number of an empty tree.
pub const NO_PAGE: u64 = u64::MAX;
/// Page flag: the page holds keys and child pages.
pub const BRANCH: u16 = 0x01;
/// Page flag: the page holds keys and rows.
pub const LEAF: u16 = 0x02;
/// Page flag: the page begins a row that is too large for a leaf.
pub const OVERFLOW: u16 = 0x04;
/// Page flag: the page is a root page.
pub const META: u16 = 0x08;
/// Node flag: the row is on overflow pages.
pub const IN_OVERFLOW: u16 = 0x01;
/// Node flag: the row is the record of a tree.
pub const IS_TREE: u16 = 0x02;
/// Tree flag: the keys are integers in native byte order.
pub const WHOLE_NUMBER_KEYS: u16 = 0x08;

/// The record of one tree: a table, the list of tables, or the list of free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    pub flags: u16,
    pub depth: u16,
    pub branch_pages: u64,
    pub leaf_pages: u64,
    pub overflow_pages: u64,
    pub entries: u64,
    pub root: u64,
}

/// A root page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    pub page_bytes: u32,
    pub free: Tree,
    pub main: Tree,
    pub last_page: u64,
    pub transaction: u64,
}

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]))
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_le_bytes(*four))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |eight| u64::from_le_bytes(*eight))
}

impl Tree {
    pub fn read(bytes: &[u8]) -> Tree {
        Tree {
            flags: u16_at(bytes, 4),
            depth: u16_at(bytes, 6),
            branch_pages: u64_at(bytes, 8),
            leaf_pages: u64_at(bytes, 16),
            overflow_pages: u64_at(bytes, 24),
            entries: u64_at(bytes, 32),
            root: u64_at(bytes, 40),
        }
    }
}

impl Meta {
    pub fn read(bytes: &[u8]) -> Meta {
        let body = &bytes[HEADER_BYTES..];
        let trees = 24;
        Meta {
            page_bytes: u32_at(body, trees),
            free: Tree::read(&body[trees..]),
            main: Tree::read(&body[trees + TREE_BYTES..]),
            last_page: u64_at(body, trees + 2 * TREE_BYTES),
            transaction: u64_at(body, trees + 2 * TREE_BYTES + 8),
        }
    }
}

/// One entry of a page.
pub struct PageNode<'a> {
    pub key: &'a [u8],
    /// In a leaf: the row, or the number of its first overflow page.
    pub data: &'a [u8],
    pub data_bytes: usize,
    pub flags: u16,
    pub low: u32,
}

impl PageNode<'_> {
    pub fn child(&self) -> u64 {
        u64::from(self.low) | u64::from(self.flags) << 32
    }
}

/// Returns the entries of a page. Returns `None` if an entry exceeds the page, or if the page has
/// too few entries.
pub fn nodes_of(page: &[u8]) -> Option<Vec<PageNode<'_>>> {
    let is_leaf = u16_at(page, 10) == LEAF;
    let (lower, upper) = (usize::from(u16_at(page, 12)), usize::from(u16_at(page, 14)));
    if lower < HEADER_BYTES || lower % 2 != 0 || lower > upper || upper > page.len() {
        return None;
    }
    let mut nodes = Vec::with_capacity((lower - HEADER_BYTES) / 2);
    for pointer in (HEADER_BYTES..lower).step_by(2) {
        let at = usize::from(u16_at(page, pointer));
        if at < upper || at % 2 != 0 {
            return None;
        }
        let header = page.get(at..at + NODE_BYTES)?;
        let (low, flags, key_bytes) = (u32_at(header, 0), u16_at(header, 4), usize::from(u16_at(header, 6)));
        let key_at = at + NODE_BYTES;
        let key = page.get(key_at..key_at + key_bytes)?;
        let data_bytes = low as usize;
        let here = match (is_leaf, flags & IN_OVERFLOW != 0) {
            (false, _) => 0,
            (true, true) => 8,
            (true, false) => data_bytes,
        };
        let data = page.get(key_at + key_bytes..(key_at + key_bytes).checked_add(here)?)?;
        nodes.push(PageNode { key, data, data_bytes, flags, low });
    }
    let enough = if is_leaf { 1 } else { 2 };
    (nodes.len() >= enough).then_some(nodes)
}

/// Returns whether the keys of a page are ascending and within `from` (inclusive) and `to`
/// (exclusive).
pub fn in_order(
    nodes: &[PageNode<'_>],
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    is_leaf: bool,
    whole_numbers: bool,
) -> bool {
    let below = |one: &[u8], other: &[u8]| match whole_numbers {
        true => u64_at(one, 0) < u64_at(other, 0),
        false => one < other,
    };
    // LMDB leaves the first key of a branch empty.
    let keys = nodes.iter().map(|node| node.key).skip(usize::from(!is_leaf));
    let mut last: Option<&[u8]> = None;
    for key in keys {
        let in_turn = last.is_none_or(|last| below(last, key));
        let within = from.is_none_or(|from| !below(key, from)) && to.is_none_or(|to| below(key, to));
        if !in_turn || !within || (is_leaf && key.is_empty()) {
            return false;
        }
        last = Some(key);
    }
    true
}
