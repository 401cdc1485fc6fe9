//! File writes and syncs with fault injection for tests.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// Faults to inject. All are off by default; only tests turn them on.
#[derive(Debug, Default)]
pub struct Faults {
    /// Writes fail as on a full disk, after half of the bytes were written.
    pub full: AtomicBool,
    /// A sync returns an I/O error; it is unknown what reached the disk.
    pub sync_fails: AtomicBool,
    /// Writes stay in a volatile cache until a sync, as on a machine that may lose power.
    pub volatile: AtomicBool,
    /// A sync reports success and does nothing.
    pub lying_sync: AtomicBool,
    /// Writes report success and do nothing.
    pub lose_writes: AtomicBool,
    /// The number of the write or sync, counted from now, at which the power fails. That one and
    /// all later ones return an error. 0 disables the fault.
    pub power_left: AtomicU64,
    /// The power has failed.
    pub dark: AtomicBool,
    cache: Mutex<Vec<CachedWrite>>,
}

#[derive(Debug)]
struct CachedWrite {
    file: File,
    bytes: Vec<u8>,
    offset: u64,
}

impl Faults {
    fn cache(&self) -> MutexGuard<'_, Vec<CachedWrite>> {
        self.cache.lock()
    }

    fn flush(&self) -> io::Result<()> {
        self.cache().drain(..).try_for_each(|write| write.file.write_all_at(&write.bytes, write.offset))
    }

    /// Counts one write or sync. Returns an error once the power has failed.
    fn draw_power(&self) -> io::Result<()> {
        let left = self.power_left.load(Ordering::SeqCst);
        if left > 0 {
            self.power_left.store(left - 1, Ordering::SeqCst);
            self.dark.fetch_or(left == 1, Ordering::SeqCst);
        }
        match self.dark.load(Ordering::SeqCst) {
            true => Err(io::Error::other("injected power failure")),
            false => Ok(()),
        }
    }

    /// Cuts the power. Of each unsynced write, this many thirds (0 to 3) of its bytes reach the
    /// disk.
    pub fn cut_power(&self, thirds: usize) -> io::Result<()> {
        self.cut_power_but(|length| length * thirds / 3)
    }

    /// Cuts the power. `survived` gets the length of each unsynced write and returns how many of
    /// its bytes reach the disk.
    pub fn cut_power_but(&self, mut survived: impl FnMut(usize) -> usize) -> io::Result<()> {
        self.dark.store(true, Ordering::SeqCst);
        for write in self.cache().drain(..) {
            let survived = survived(write.bytes.len());
            write.file.write_all_at(&write.bytes[..survived], write.offset)?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default)]
pub struct Disk {
    faults: Arc<Faults>,
}

impl Disk {
    pub fn with_faults(faults: Arc<Faults>) -> Disk {
        Disk { faults }
    }

    pub fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let was_dark = self.faults.dark.load(Ordering::SeqCst);
        if let Err(gone) = self.faults.draw_power() {
            if was_dark {
                return Err(gone);
            }
            // This write was in flight when the power failed.
            self.faults.cache().push(CachedWrite { file: file.try_clone()?, bytes: bytes.to_vec(), offset });
            return Err(gone);
        }
        if self.faults.full.load(Ordering::SeqCst) {
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.faults.lose_writes.load(Ordering::SeqCst) {
            return Ok(());
        }
        if self.faults.volatile.load(Ordering::SeqCst) {
            let (file, bytes) = (file.try_clone()?, bytes.to_vec());
            self.faults.cache().push(CachedWrite { file, bytes, offset });
            return Ok(());
        }
        file.write_all_at(bytes, offset)
    }

    pub fn sync(&self, file: &File) -> io::Result<()> {
        self.faults.draw_power()?;
        if self.faults.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("injected sync failure"));
        }
        if self.faults.lying_sync.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.faults.flush()?;
        file.sync_data()
    }

    /// Creates a file of `bytes` zeros with all blocks written. Overwriting them later changes no
    /// metadata, which halves the time of a sync.
    pub fn create_zeroed(&self, path: &Path, bytes: u64) -> io::Result<File> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        if self.faults.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .or_else(|error| if error == rustix::io::Errno::OPNOTSUPP { Ok(()) } else { Err(error) })?;
        let zeros = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < bytes {
            let count = (bytes - offset).min(zeros.len() as u64);
            file.write_all_at(
                &zeros[..usize::try_from(count).expect("each write is at most a mebibyte")],
                offset,
            )?;
            offset += count;
        }
        file.sync_all()?;
        Ok(file)
    }

    /// Makes creations, renames and deletions in a directory durable.
    pub fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }
}
