//! An object store that is down, slow, full or missing, or that refuses the credentials. Errors are
//! reported soon, with their reason and without secrets.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bluetick_archive::{ArchiveSettings, ObjectArchive, ObjectArchiveError, Put, SegmentName};
use bluetick_testkit::s3::{S3Kind, S3Server};
use common::{STORE, TestArchive, archive_at, in_directory, segment_of, settings_for};
use futures_util::StreamExt;
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Makes every kind of request. Asserts that each fails as unavailable, and returns the error
/// texts.
async fn assert_unavailable(object_archive: &ObjectArchive) -> Vec<String> {
    let (name, sealed, _) = segment_of(1);
    let said = [
        object_archive.put(&name, sealed.bytes).await.err(),
        object_archive.block(&name, sealed.blocks[0]).await.err(),
        object_archive.segment(&name).await.err(),
        object_archive.delete(&name).await.err(),
        object_archive.list(STORE, None).next().await.and_then(Result::err),
    ];
    said.map(|error| match error {
        Some(ObjectArchiveError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    })
    .into()
}

fn at(endpoint: String) -> ArchiveSettings {
    ArchiveSettings {
        engine: bluetick_archive::ArchiveEngine::S3,
        endpoint: Some(endpoint),
        bucket: "bluetick-test".to_owned(),
        ..ArchiveSettings::default()
    }
}

fn open(settings: &ArchiveSettings, id: &'static str, secret: &'static str) -> ObjectArchive {
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some(id.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(secret.to_owned()),
        "AWS_SESSION_TOKEN" => Some("the-session-token".to_owned()),
        // Variables for other programs, which the archive must ignore.
        "AWS_ENDPOINT_URL" | "AWS_ENDPOINT_URL_S3" => Some("http://127.0.0.1:1".to_owned()),
        _ => None,
    };
    ObjectArchive::open_with_environment(settings, Path::new("/nowhere"), &variable).unwrap().unwrap()
}

fn assert_no_secret(texts: &[String]) {
    for text in texts {
        assert!(!text.contains("the-secret") && !text.contains("the-session-token"), "{text}");
    }
}

#[tokio::test]
async fn refused_connection_is_reported_immediately() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let start = Instant::now();
    let said = assert_unavailable(&open(&at(endpoint.clone()), "id", "the-secret")).await;
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!(said[1].starts_with(&format!("s3 bluetick-test/bluetick at {endpoint}: ")), "{}", said[1]);
    assert!(said[1].contains("refused"), "{}", said[1]);
    assert_no_secret(&said);
}

#[tokio::test]
async fn silent_object_store_times_out_once_for_all_readers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let object_archive = open(&ArchiveSettings { timeout_seconds: 1, ..at(endpoint) }, "id", "the-secret");
    let (name, sealed, _) = segment_of(1);
    let start = Instant::now();
    let read = join_all((0..100).map(|_| object_archive.block(&name, sealed.blocks[0]))).await;
    assert!(start.elapsed() < Duration::from_secs(15), "all hundred calls took {:?}", start.elapsed());
    for read in read {
        assert!(
            matches!(read, Err(ObjectArchiveError::Unavailable(text)) if text.contains("no answer within 1 s"))
        );
    }
    let counters = object_archive.counters();
    assert_eq!((counters.fetches, counters.failed_fetches), (1, 1), "all readers shared one failed fetch");
    let start = Instant::now();
    assert_unavailable(&object_archive).await;
    assert!(start.elapsed() < Duration::from_secs(30), "five calls took {:?}", start.elapsed());
    silent.abort();
}

#[tokio::test]
async fn silent_connection_is_retried_before_the_timeout() {
    let place = TestArchive::s3(S3Kind::S3sFs).await;
    let (name, sealed, _) = segment_of(1);
    place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    let server = place.server.as_ref().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let behind = server.endpoint().strip_prefix("http://").unwrap().to_owned();
    // The first connection gets no answer. Later connections reach the server.
    let between = tokio::spawn(async move {
        let _silent = listener.accept().await.unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut server = tokio::net::TcpStream::connect(&behind).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut server).await });
        }
    });
    let settings = ArchiveSettings {
        endpoint: Some(format!("http://{address}")),
        timeout_seconds: 4,
        ..settings_for(server)
    };
    let read = archive_at(server, &settings).block(&name, sealed.blocks[0]).await;
    assert_eq!(read.unwrap().len(), 10);
    between.abort();
}

#[tokio::test]
async fn server_without_tls_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let rude = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let said = assert_unavailable(&open(&at(endpoint), "id", "the-secret")).await;
    assert!(said[1].contains("corrupt message"), "{}", said[1]);
    assert_no_secret(&said);
    rude.abort();
}

#[tokio::test]
async fn wrong_keys_are_reported_with_the_code_of_the_response() {
    let server = S3Server::start(S3Kind::S3sFs).await;
    let [(_, id), _] = server.credentials();
    let said = assert_unavailable(&open(&settings_for(&server), id, "the-secret")).await;
    assert!(said.iter().all(|text| text.contains("403 Forbidden (SignatureDoesNotMatch)")), "{said:?}");
    assert_no_secret(&said);
    let said = assert_unavailable(&open(&settings_for(&server), "nobody", "the-secret")).await;
    assert!(said.iter().all(|text| text.contains("it answered 4")), "{said:?}");
    assert_no_secret(&said);
}

#[tokio::test]
async fn missing_bucket_is_unavailable_and_not_lost() {
    // Of the two servers, Ministack names the bucket in its answer, as Amazon S3 does.
    let server = S3Server::start(S3Kind::Ministack).await;
    let settings = ArchiveSettings { bucket: "another-bucket".to_owned(), ..settings_for(&server) };
    let said = assert_unavailable(&archive_at(&server, &settings)).await;
    assert!(said.iter().all(|text| text.contains("404 Not Found (NoSuchBucket)")), "{said:?}");
}

#[tokio::test]
async fn restarted_object_store_is_used_again() {
    let mut place = TestArchive::s3(S3Kind::S3sFs).await;
    let (name, sealed, _) = segment_of(1);
    place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    let held = place.object_archive.block(&name, sealed.blocks[0]).await.unwrap();
    let server = place.server.as_mut().unwrap();
    server.stop().await;
    let read = place.object_archive.block(&name, sealed.blocks[1]).await;
    assert!(matches!(read, Err(ObjectArchiveError::Unavailable(_))), "{read:?}");
    let again = place.object_archive.block(&name, sealed.blocks[0]).await.unwrap();
    assert_eq!(again.record(0), held.record(0), "cached blocks are served during the outage");
    server.start_again().await;
    // After a failure the archive refuses requests for a moment without asking the server.
    let read = loop {
        match place.object_archive.block(&name, sealed.blocks[1]).await {
            Err(ObjectArchiveError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            answered => break answered,
        }
    };
    assert_eq!(read.unwrap().len(), 10);
}

/// A mounted file system, unmounted when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(options: &str) -> SmallDisk {
        let disk = SmallDisk(TempDir::new().unwrap());
        disk.run(Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]));
        disk
    }

    fn remount(&self, options: &str) {
        self.run(Command::new("mount").args(["-o", &format!("remount,{options}")]));
    }

    fn run(&self, command: &mut Command) {
        assert!(
            command.arg(self.0.path()).status().is_ok_and(|status| status.success()),
            "this test fills a small file system and needs the right to mount one: run it as root, or in `unshare -rm`"
        );
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

async fn listed(object_archive: &ObjectArchive) -> Vec<SegmentName> {
    object_archive.list(STORE, None).map(|entry| entry.unwrap().0).collect().await
}

/// Counts all files below a directory, hidden ones included.
fn files_below(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn put_on_a_full_or_read_only_disk_fails_without_partial_files() {
    let disk = SmallDisk::mount("size=1m");
    let object_archive = ObjectArchive::open(&in_directory(), disk.0.path()).unwrap().unwrap();
    let (name, sealed, _) = segment_of(1);
    let (other, large, _) = segment_of(2);
    object_archive.put(&name, sealed.bytes.clone()).await.unwrap();

    let larger_than_the_disk = vec![1; 2 << 20];
    let put = object_archive.put(&other, larger_than_the_disk.into()).await;
    assert!(
        matches!(&put, Err(ObjectArchiveError::Unavailable(text)) if text.contains("No space left")),
        "{put:?}"
    );
    assert_eq!(listed(&object_archive).await, [name]);
    assert_eq!(files_below(disk.0.path()), 2, "the segment and the marker");

    disk.remount("ro");
    let put = object_archive.put(&other, large.bytes.clone()).await;
    assert!(
        matches!(&put, Err(ObjectArchiveError::Unavailable(text)) if text.contains("Read-only")),
        "{put:?}"
    );
    let deleted = object_archive.delete(&name).await;
    assert!(matches!(deleted, Err(ObjectArchiveError::Unavailable(_))), "{deleted:?}");
    assert_eq!(object_archive.block(&name, sealed.blocks[0]).await.unwrap().len(), 10, "reads still work");

    disk.remount("rw");
    assert_eq!(object_archive.put(&other, large.bytes).await, Ok(Put::New));
}

#[tokio::test]
async fn unmounted_directory_is_unavailable_and_not_lost() {
    let place = TestArchive::directory();
    let (name, sealed, _) = segment_of(1);
    place.object_archive.put(&name, sealed.bytes).await.unwrap();
    std::fs::remove_dir_all(place.directory.as_ref().unwrap().path().join("archive")).unwrap();
    let said = assert_unavailable(&place.object_archive).await;
    assert!(said.iter().all(|text| text.ends_with("archive: no such directory")), "{said:?}");
}

#[tokio::test]
async fn missing_credentials_are_reported() {
    let settings = at("http://127.0.0.1:1".to_owned());
    let variable = |name: &str| (name == "AWS_METADATA_ENDPOINT").then(|| "http://127.0.0.1:1".to_owned());
    let object_archive =
        ObjectArchive::open_with_environment(&settings, Path::new("/nowhere"), &variable).unwrap().unwrap();
    let said = assert_unavailable(&object_archive).await;
    assert!(said.iter().all(|text| text.contains("AWS_ACCESS_KEY_ID is not set")), "{said:?}");
}

#[tokio::test]
async fn staged_files_of_a_crashed_put_are_swept() {
    let place = TestArchive::directory();
    let (name, sealed, _) = segment_of(1);
    let (other, other_sealed, _) = segment_of(2);
    for (name, sealed) in [(name, &sealed), (other, &other_sealed)] {
        place.object_archive.put(&name, sealed.bytes.clone()).await.unwrap();
    }
    let root = place.directory.as_ref().unwrap().path().join("archive");
    let staged = |name: SegmentName, number: u32| root.join(format!("{name}#{number}"));
    for (name, number) in [(name, 1), (name, 2), (other, 1)] {
        std::fs::write(staged(name, number), b"half").unwrap();
    }
    let note = root.join(name.to_string()).with_file_name("note#1");
    std::fs::write(&note, b"not ours").unwrap();
    assert_eq!(listed(&place.object_archive).await.len(), 2, "a staged file is no segment");

    place.object_archive.delete(&name).await.unwrap();
    assert!(
        !staged(name, 1).exists() && !staged(name, 2).exists(),
        "staged files are deleted with their segment"
    );
    assert_eq!(place.object_archive.sweep_unfinished(*b"another1").await, Ok(0));
    let marker = root.join("74686573746f7265/ARCHIVE.txt#1");
    std::fs::write(&marker, b"half").unwrap();
    assert_eq!(place.object_archive.sweep_unfinished(STORE).await, Ok(2));
    assert!(!marker.exists());
    assert!(!staged(other, 1).exists() && note.exists());
    assert_eq!(listed(&place.object_archive).await, [other]);
}

#[tokio::test]
async fn location_names_the_directory_or_the_bucket() {
    let data_dir = tempfile::tempdir().unwrap();
    let real = data_dir.path().canonicalize().unwrap();
    let place = |settings: ArchiveSettings| {
        ObjectArchive::open(&settings, data_dir.path()).unwrap().map(|object_archive| object_archive.place())
    };
    assert_eq!(place(ArchiveSettings::default()), None);
    assert_eq!(place(in_directory()), Some(format!("directory {}", real.join("archive").display())));
    let relative = ArchiveSettings { directory: Some("cold/er".into()), ..in_directory() };
    assert_eq!(place(relative), Some(format!("directory {}", real.join("cold/er").display())));
    let amazon = ArchiveSettings { endpoint: None, prefix: String::new(), ..at(String::new()) };
    assert_eq!(place(amazon), Some("s3 bluetick-test in us-east-1".to_owned()));

    std::fs::write(data_dir.path().join("file"), b"").unwrap();
    let wrong = ArchiveSettings { directory: Some("file".into()), ..in_directory() };
    let opened = ObjectArchive::open(&wrong, data_dir.path()).err();
    assert!(
        matches!(&opened, Some(ObjectArchiveError::Settings(text)) if text.contains("archive.directory")),
        "{opened:?}"
    );
    let opened =
        ObjectArchive::open(&ArchiveSettings { timeout_seconds: 0, ..in_directory() }, data_dir.path()).err();
    assert!(
        matches!(&opened, Some(ObjectArchiveError::Settings(text)) if text.contains("archive.timeout_seconds"))
    );
}
