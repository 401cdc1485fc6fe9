//! Checks the pages of the LMDB file without the LMDB engine.
//!
//! The engine trusts its file: a page number beyond the end of the file crashes the process. This
//! module walks every page that the root reaches and checks its number, its bounds and the order of
//! its keys. It also checks the page and entry counts, and that each page is used once or free,
//! never both. It does not check the content of rows, which have their own checksums.

mod page;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use self::page::{
    BRANCH, HEADER_BYTES, IN_OVERFLOW, IS_TREE, LEAF, MAGIC, META, META_BYTES, Meta, NO_PAGE, OVERFLOW,
    PageNode, TREE_BYTES, Tree, VERSIONS, WHOLE_NUMBER_KEYS, in_order, nodes_of, u16_at, u32_at, u64_at,
};
use super::TablesError;

/// Largest file, in bytes, that is checked at every start. A larger file would delay the start too
/// much; `bluetick check` checks it.
const VERIFY_AT_OPEN_BYTES: u64 = 256 << 20;

/// A deviation from what the engine writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFinding {
    pub offset: u64,
    pub what: String,
}

/// The number of pages that the check reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCount {
    pub used: u64,
    pub free: u64,
}

/// Checks a file of at most [`VERIFY_AT_OPEN_BYTES`] before the engine opens it. Errors with the
/// first finding. Accepts a missing or larger file.
pub(super) fn verify_at_open(directory: &Path) -> Result<(), TablesError> {
    let path = directory.join("data.mdb");
    let io = |error| TablesError::Io { path: path.clone(), error };
    match path.metadata() {
        Ok(metadata) if metadata.len() > VERIFY_AT_OPEN_BYTES => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    }
    let mut first = None;
    let ended = verify(&path, &mut |finding| {
        first.get_or_insert(finding);
        false
    });
    match (first, ended) {
        (Some(PageFinding { offset, what }), _) => Err(TablesError::DamagedPage { path, offset, what }),
        (None, Err(error)) => Err(io(error)),
        (None, Ok(_)) => Ok(()),
    }
}

/// Checks the file and passes each finding to `report`, until `report` returns `false`.
pub fn verify(path: &Path, report: &mut dyn FnMut(PageFinding) -> bool) -> io::Result<PageCount> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length == 0 {
        // The engine initializes an empty file.
        return Ok(PageCount::default());
    }
    // Pages are read in random order, so ask the kernel to load the file ahead.
    let _advice = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed);
    let mut verify = PageCheck {
        file,
        length,
        page_bytes: 0,
        last_page: 0,
        seen: Vec::new(),
        used: 0,
        report,
        stopped: false,
    };
    verify.whole()
}

/// One run of the check.
struct PageCheck<'a> {
    file: File,
    length: u64,
    page_bytes: usize,
    last_page: u64,
    /// One bit for each page that is referenced or free.
    seen: Vec<u64>,
    used: u64,
    report: &'a mut dyn FnMut(PageFinding) -> bool,
    stopped: bool,
}

/// The contents of the leaves of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Rows,
    Tables,
    FreePages,
}

#[derive(Default)]
struct TreeCounts {
    branch: u64,
    leaf: u64,
    overflow: u64,
    entries: u64,
}

/// The table roots and free page lists found in a tree.
#[derive(Default)]
struct TreeContents {
    tables: Vec<(String, u64, Tree)>,
    free: Vec<(u64, Vec<u8>)>,
}

impl PageCheck<'_> {
    fn say(&mut self, offset: u64, what: impl Into<String>) {
        if !self.stopped {
            self.stopped = !(self.report)(PageFinding { offset, what: what.into() });
        }
    }

    fn whole(&mut self) -> io::Result<PageCount> {
        let Some(meta) = self.metas()? else { return Ok(PageCount::default()) };
        self.last_page = meta.last_page;
        let pages = self.length / self.page_bytes as u64;
        if meta.last_page >= pages {
            let what = format!("it has {pages} pages instead of {}", meta.last_page.saturating_add(1));
            self.say(self.length, what);
            self.last_page = pages - 1;
        }
        self.seen = vec![
            0;
            usize::try_from(self.last_page / 64 + 1)
                .expect("the page count of an existing file fits into memory")
        ];
        self.mark(0, 2);
        let mut found = TreeContents::default();
        self.tree("the list of tables", meta.main, Leaves::Tables, &mut found)?;
        for (name, offset, tree) in std::mem::take(&mut found.tables) {
            if tree.flags != 0 {
                self.say(offset, format!("the table {name} has invalid flags"));
                continue;
            }
            self.tree(&format!("the table {name}"), tree, Leaves::Rows, &mut found)?;
        }
        self.tree("the list of free pages", meta.free, Leaves::FreePages, &mut found)?;
        let used = self.used;
        for (offset, pages) in found.free {
            self.free_pages(offset, &pages);
        }
        Ok(PageCount { used, free: self.used - used })
    }

    /// Returns the newer of the two root pages. Returns `None` if either is damaged, because the
    /// engine picks one by its transaction number alone.
    fn metas(&mut self) -> io::Result<Option<Meta>> {
        let Some(first) = self.bytes(0, HEADER_BYTES + META_BYTES)? else {
            self.say(0, "it is too short to hold tables");
            return Ok(None);
        };
        let page_bytes = Meta::read(&first).page_bytes;
        if !(512..=65_536).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            self.say(0, "its first page is damaged: invalid page size");
            return Ok(None);
        }
        self.page_bytes = page_bytes as usize;
        let Some(second) = self.bytes(u64::from(page_bytes), HEADER_BYTES + META_BYTES)? else {
            self.say(self.length, "it is too short to hold tables");
            return Ok(None);
        };
        let mut metas = Vec::new();
        for (number, bytes) in [(0, &first), (1, &second)] {
            let offset = number * u64::from(page_bytes);
            let (magic, version) = (u32_at(bytes, HEADER_BYTES), u32_at(bytes, HEADER_BYTES + 4));
            let meta = Meta::read(bytes);
            let sound = u64_at(bytes, 0) == number
                && u16_at(bytes, 10) == META
                && magic == MAGIC
                && VERSIONS.contains(&version)
                && meta.page_bytes == page_bytes
                && meta.main.flags == 0
                && meta.free.flags == WHOLE_NUMBER_KEYS
                // Transactions write the two root pages alternately.
                && (meta.transaction == 0 || meta.transaction % 2 == number);
            if !sound {
                self.say(offset, "one of its two roots is damaged");
                return Ok(None);
            }
            metas.push(meta);
        }
        if metas[0].transaction.abs_diff(metas[1].transaction) > 1 {
            self.say(0, "its two roots are not of consecutive transactions: one is damaged");
            return Ok(None);
        }
        Ok(metas.into_iter().max_by_key(|meta| meta.transaction))
    }

    fn bytes(&self, offset: u64, count: usize) -> io::Result<Option<Vec<u8>>> {
        if offset.saturating_add(count as u64) > self.length {
            return Ok(None);
        }
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(Some(bytes))
    }

    fn offset_of(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_bytes as u64)
    }

    /// Marks these pages as used. Returns `false` if one of them is outside the file or already
    /// marked.
    fn mark(&mut self, first: u64, count: u64) -> bool {
        if count == 0 || first > self.last_page || count > self.last_page - first + 1 {
            return false;
        }
        for page in first..first + count {
            let (word, bit) = (usize::try_from(page / 64).unwrap_or(usize::MAX), 1 << (page % 64));
            let Some(word) = self.seen.get_mut(word) else { return false };
            if *word & bit != 0 {
                return false;
            }
            *word |= bit;
            self.used += 1;
        }
        true
    }

    /// Checks all pages of one tree, then its page and entry counts.
    fn tree(&mut self, name: &str, tree: Tree, leaves: Leaves, found: &mut TreeContents) -> io::Result<()> {
        let mut counted = TreeCounts::default();
        if tree.root != NO_PAGE {
            // Pages still to check: page, referring page, depth, and the bounds of its keys.
            type Bound = Option<Vec<u8>>;
            let mut waiting: Vec<(u64, u64, u16, Bound, Bound)> = vec![(tree.root, 0, 1, None, None)];
            while let Some((page, referrer, depth, from, to)) = waiting.pop() {
                if self.stopped {
                    return Ok(());
                }
                if !self.mark(page, 1) || page < 2 {
                    let what = format!("{name}: page {page} is used twice or missing");
                    self.say(self.offset_of(referrer), what);
                    continue;
                }
                let offset = self.offset_of(page);
                let Some(bytes) = self.bytes(offset, self.page_bytes)? else { continue };
                let is_leaf = depth == tree.depth;
                let expected = if is_leaf { LEAF } else { BRANCH };
                if u64_at(&bytes, 0) != page || u16_at(&bytes, 10) != expected {
                    self.say(offset, format!("{name}: page {page} is damaged: wrong number or kind"));
                    continue;
                }
                let Some(nodes) = nodes_of(&bytes) else {
                    self.say(offset, format!("{name}: page {page} is damaged: its bounds are wrong"));
                    continue;
                };
                let whole_numbers = leaves == Leaves::FreePages;
                if !in_order(&nodes, from.as_deref(), to.as_deref(), is_leaf, whole_numbers) {
                    self.say(offset, format!("{name}: page {page} is damaged: its keys are out of order"));
                    continue;
                }
                if is_leaf {
                    counted.leaf += 1;
                    counted.entries += nodes.len() as u64;
                    self.leaf(name, page, &nodes, leaves, &mut counted, found)?;
                } else {
                    counted.branch += 1;
                    for (at, node) in nodes.iter().enumerate() {
                        let from = if at == 0 { from.clone() } else { Some(node.key.to_vec()) };
                        let to = nodes.get(at + 1).map(|next| next.key.to_vec()).or_else(|| to.clone());
                        waiting.push((node.child(), page, depth + 1, from, to));
                    }
                }
            }
        }
        let said = (tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries);
        if said != (counted.branch, counted.leaf, counted.overflow, counted.entries) {
            let TreeCounts { leaf, entries, .. } = counted;
            let what = format!(
                "{name}: its record has {} entries on {} pages instead of {entries} on {leaf}",
                tree.entries, tree.leaf_pages
            );
            self.say(self.offset_of(tree.root.min(self.last_page)), what);
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        name: &str,
        page: u64,
        nodes: &[PageNode<'_>],
        leaves: Leaves,
        counted: &mut TreeCounts,
        found: &mut TreeContents,
    ) -> io::Result<()> {
        let offset = self.offset_of(page);
        for node in nodes {
            let expected = if leaves == Leaves::Tables { IS_TREE } else { 0 };
            let data = match node.flags {
                IN_OVERFLOW if leaves != Leaves::Tables => {
                    let first = u64_at(node.data, 0);
                    match self.overflow(first, node.data_bytes, leaves == Leaves::FreePages)? {
                        Some((pages, data)) => {
                            counted.overflow += pages;
                            data
                        }
                        None => {
                            let what =
                                format!("{name}: a row on page {page} continues on damaged or shared pages");
                            self.say(offset, what);
                            continue;
                        }
                    }
                }
                flags if flags == expected => node.data.to_vec(),
                _ => {
                    self.say(offset, format!("{name}: page {page} is damaged: unknown kind of row"));
                    continue;
                }
            };
            match leaves {
                Leaves::Rows => {}
                Leaves::Tables if data.len() == TREE_BYTES => {
                    let name = String::from_utf8_lossy(node.key).trim_end_matches('\0').to_owned();
                    found.tables.push((name, offset, Tree::read(&data)));
                }
                Leaves::Tables => {
                    self.say(offset, format!("{name}: a record on page {page} has a wrong length"))
                }
                Leaves::FreePages => found.free.push((offset, data)),
            }
        }
        Ok(())
    }

    /// Checks and marks the pages of a row that is too large for a leaf. Returns their number, and
    /// their content if `wanted`. Returns `None` if they are damaged or not the row's own.
    fn overflow(
        &mut self,
        first: u64,
        data_bytes: usize,
        wanted: bool,
    ) -> io::Result<Option<(u64, Vec<u8>)>> {
        let offset = self.offset_of(first);
        if first < 2 || first > self.last_page {
            return Ok(None);
        }
        let Some(header) = self.bytes(offset, HEADER_BYTES)? else { return Ok(None) };
        let pages = u64::from(u32_at(&header, 12));
        let needed = (HEADER_BYTES + data_bytes).div_ceil(self.page_bytes) as u64;
        if u64_at(&header, 0) != first
            || u16_at(&header, 10) != OVERFLOW
            || pages < needed
            || !self.mark(first, pages)
        {
            return Ok(None);
        }
        let data = match wanted {
            true => self.bytes(offset + HEADER_BYTES as u64, data_bytes)?,
            false => Some(Vec::new()),
        };
        Ok(data.map(|data| (pages, data)))
    }

    /// Checks a list of free pages. The engine would overwrite a page that is both free and used.
    fn free_pages(&mut self, offset: u64, listed: &[u8]) {
        let count = u64_at(listed, 0);
        let pages = listed.get(8..).unwrap_or_default().chunks_exact(8).map(|page| u64_at(page, 0));
        if count > pages.len() as u64 {
            return self.say(offset, "the list of free pages is truncated");
        }
        for page in pages.take(usize::try_from(count).unwrap_or(usize::MAX)) {
            // Every free page must be within the file.
            if page > self.last_page {
                self.say(offset, format!("page {page} is listed as free, but missing"));
            } else if !self.mark(page, 1) {
                self.say(offset, format!("page {page} is listed as free, but used"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
