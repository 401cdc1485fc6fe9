//! Archive locations for tests. Each gives access to the stored objects, so that a test can damage
//! them.
#![allow(dead_code, reason = "every test file uses a part")]

use std::sync::Arc;

use bluetick_archive::object_store::aws::AmazonS3Builder;
use bluetick_archive::object_store::local::LocalFileSystem;
use bluetick_archive::object_store::memory::InMemory;
use bluetick_archive::object_store::path::Path;
use bluetick_archive::object_store::{ObjectStore, ObjectStoreExt};
use bluetick_archive::segment::{self, EncodedSegment};
use bluetick_archive::{ArchiveEngine, ArchiveSettings, ObjectArchive, SegmentName};
use bluetick_core::{ConversationId, Seq};
use bluetick_testkit::s3::{S3Kind, S3Server};
use tempfile::TempDir;

pub const STORE: [u8; 8] = *b"thestore";

pub struct TestArchive {
    pub object_archive: ObjectArchive,
    /// The same objects without the archive in front of them.
    pub objects: Arc<dyn ObjectStore>,
    pub prefix: &'static str,
    /// Whether exactly one of several concurrent equal puts returns `Put::New`.
    pub puts_atomically: bool,
    pub directory: Option<TempDir>,
    pub server: Option<S3Server>,
}

impl TestArchive {
    pub fn memory() -> TestArchive {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let object_archive = ObjectArchive::over(Arc::clone(&objects), "some/prefix", 1 << 20);
        TestArchive {
            object_archive,
            objects,
            prefix: "some/prefix/",
            puts_atomically: true,
            directory: None,
            server: None,
        }
    }

    pub fn directory() -> TestArchive {
        let directory = tempfile::tempdir().unwrap();
        let object_archive = ObjectArchive::open(&in_directory(), directory.path()).unwrap().unwrap();
        let objects = Arc::new(LocalFileSystem::new_with_prefix(directory.path().join("archive")).unwrap());
        TestArchive {
            object_archive,
            objects,
            prefix: "",
            puts_atomically: true,
            directory: Some(directory),
            server: None,
        }
    }

    pub async fn s3(kind: S3Kind) -> TestArchive {
        let server = S3Server::start(kind).await;
        let object_archive = archive_at(&server, &settings_for(&server));
        let [(_, id), (_, secret)] = server.credentials();
        let objects = AmazonS3Builder::new()
            .with_endpoint(server.endpoint())
            .with_allow_http(true)
            .with_bucket_name(server.bucket())
            .with_access_key_id(id)
            .with_secret_access_key(secret)
            .with_disable_bulk_delete(true)
            .build()
            .unwrap();
        let puts_atomically = kind == S3Kind::Ministack;
        TestArchive {
            object_archive,
            objects: Arc::new(objects),
            prefix: "bluetick/",
            puts_atomically,
            directory: None,
            server: Some(server),
        }
    }

    pub fn path(&self, below: &str) -> Path {
        Path::from(format!("{}{below}", self.prefix))
    }

    /// Overwrites an object behind the archive's back.
    pub async fn spoil(&self, below: &str, bytes: Vec<u8>) {
        self.objects.put(&self.path(below), bytes.into()).await.unwrap();
    }
}

pub fn in_directory() -> ArchiveSettings {
    ArchiveSettings { engine: ArchiveEngine::Directory, ..ArchiveSettings::default() }
}

pub fn settings_for(server: &S3Server) -> ArchiveSettings {
    ArchiveSettings {
        engine: ArchiveEngine::S3,
        endpoint: Some(server.endpoint()),
        bucket: server.bucket().to_owned(),
        ..ArchiveSettings::default()
    }
}

pub fn archive_at(server: &S3Server, settings: &ArchiveSettings) -> ObjectArchive {
    let variable = |name: &str| {
        let known = server.credentials().into_iter().find(|(key, _)| *key == name);
        known.map(|(_, value)| value.to_owned())
    };
    let object_archive =
        ObjectArchive::open_with_environment(settings, std::path::Path::new("/nowhere"), &variable);
    object_archive.unwrap().unwrap()
}

/// Builds the segment of one group: three blocks of ten messages. `number` selects the group.
pub fn segment_of(group: u8) -> (SegmentName, EncodedSegment, Vec<Vec<u8>>) {
    let name = SegmentName {
        store: STORE,
        conversation: ConversationId::group([group; 15]),
        first: Seq::new(1),
        last: Seq::new(30),
        revision: 0,
    };
    let records: Vec<Vec<u8>> = (1..=30)
        .map(|seq| format!("message {seq} of group {group}, and what it says").into_bytes())
        .collect();
    let blocks: Vec<Vec<&[u8]>> =
        records.chunks(10).map(|block| block.iter().map(Vec::as_slice).collect()).collect();
    let sealed = segment::seal(&name, &blocks);
    (name, sealed, records)
}
