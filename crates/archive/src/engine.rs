//! The object stores that can be set: a directory, or an S3 bucket. What is done with them belongs to the vault.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::{ArchiveEngine, ArchiveSettings, VaultError};

/// An object store, and what there is to say of it.
pub(crate) struct Engine {
    pub objects: Arc<dyn ObjectStore>,
    /// In words, without secrets.
    pub place: String,
    pub prefix: String,
    /// Where a directory has its root.
    pub directory: Option<PathBuf>,
    /// Added to an error that could come of it.
    pub hint: &'static str,
}

const NO_KEY: &str = " (AWS_ACCESS_KEY_ID is not set and there is no credentials file, so that the machine's own role was asked for)";

/// `variable` is the environment.
pub(crate) fn open(
    settings: &ArchiveSettings,
    data_dir: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Engine>, VaultError> {
    if let Some(problem) = settings.problem() {
        return Err(VaultError::Settings(problem));
    }
    match settings.engine {
        ArchiveEngine::Off => Ok(None),
        ArchiveEngine::Directory => {
            let below = settings.directory.as_deref().unwrap_or(Path::new("archive"));
            directory(&data_dir.join(below)).map(Some)
        }
        ArchiveEngine::S3 => s3(settings, variable).map(Some),
    }
}

fn directory(root: &Path) -> Result<Engine, VaultError> {
    open_directory(root).map_err(|why| {
        VaultError::Settings(format!("archive.directory {} cannot be used: {why}", root.display()))
    })
}

/// Made where it is not there; otherwise, why it cannot be used.
pub(crate) fn open_directory(root: &Path) -> Result<Engine, String> {
    make_directory(root).map_err(|error| error.to_string())?;
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    let objects = LocalFileSystem::new_with_prefix(&root).map_err(|error| crate::error::in_words(&error))?;
    // Directories of conversations that were emptied go with their last object.
    let objects = objects.with_fsync(true).with_automatic_cleanup(true);
    Ok(Engine {
        objects: Arc::new(objects),
        place: format!("directory {}", root.display()),
        prefix: String::new(),
        directory: Some(root),
        hint: "",
    })
}

/// Made so that nobody else can read what people wrote; one that is there is left as it is.
fn make_directory(root: &Path) -> std::io::Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(root)?;
    // So that the directory is still there after a power loss, when the objects in it are.
    match root.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => Ok(()),
    }
}

/// Makes what was added to or taken from a directory last.
pub(crate) fn sync_directory(directory: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    std::fs::File::open(directory)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = directory;
    Ok(())
}

/// What may come from the environment: who we are, and how the bucket encrypts. Where we go is said by the settings
/// alone, so that a variable meant for another program cannot send messages elsewhere.
const FROM_ENVIRONMENT: [(&str, AmazonS3ConfigKey); 12] = [
    ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
    ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
    ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
    ("AWS_METADATA_ENDPOINT", AmazonS3ConfigKey::MetadataEndpoint),
    ("AWS_REQUEST_PAYER", AmazonS3ConfigKey::RequestPayer),
];

fn s3(settings: &ArchiveSettings, variable: &dyn Fn(&str) -> Option<String>) -> Result<Engine, VaultError> {
    // The one crypto library of the whole binary. Whoever was first has chosen the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let timeout = settings.timeout();
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&settings.bucket)
        .with_region(&settings.region)
        // Whoever asks has a deadline of its own, around all attempts.
        .with_client_options(
            ClientOptions::new()
                .with_timeout_disabled()
                .with_connect_timeout(timeout.min(Duration::from_secs(5))),
        )
        .with_retry(retries(timeout))
        // One object at a time is a plain DELETE, which every server knows.
        .with_disable_bulk_delete(true);
    let mut has_identity = false;
    for (name, key) in FROM_ENVIRONMENT {
        if let Some(value) = variable(name).filter(|value| !value.is_empty()) {
            has_identity |=
                !matches!(key, AmazonS3ConfigKey::MetadataEndpoint | AmazonS3ConfigKey::RequestPayer);
            builder = builder.with_config(key, value);
        }
    }
    if !has_identity && let Some(profile) = crate::profile::read(variable) {
        has_identity = true;
        builder = builder
            .with_access_key_id(profile.access_key_id)
            .with_secret_access_key(profile.secret_access_key);
        if let Some(token) = profile.session_token {
            builder = builder.with_token(token);
        }
    }
    if let Some(endpoint) = &settings.endpoint {
        let plain = endpoint.starts_with("http://");
        builder =
            builder.with_endpoint(endpoint).with_allow_http(plain).with_virtual_hosted_style_request(false);
    } else {
        builder = builder.with_virtual_hosted_style_request(!settings.bucket.contains('.'));
    }
    let objects = builder.build().map_err(|error| {
        VaultError::Settings(format!(
            "the section archive cannot be used: {}",
            crate::error::in_words(&error)
        ))
    })?;
    let at = settings
        .endpoint
        .as_deref()
        .map_or_else(|| format!("in {}", settings.region), |at| format!("at {at}"));
    let below = if settings.prefix.is_empty() { String::new() } else { format!("/{}", settings.prefix) };
    Ok(Engine {
        objects: Arc::new(objects),
        place: format!("s3 {}{below} {at}", settings.bucket),
        prefix: settings.prefix.clone(),
        directory: None,
        hint: if has_identity { "" } else { NO_KEY },
    })
}

/// A few, soon after one another: somebody waits for a page.
fn retries(timeout: Duration) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
        },
        max_retries: 3,
        retry_timeout: timeout,
    }
}
