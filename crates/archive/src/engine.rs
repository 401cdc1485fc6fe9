//! Opens the configured object store: a directory, or an S3 bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::{ArchiveEngine, ArchiveSettings, ObjectArchiveError};

/// An object store with its location.
pub(crate) struct ObjectBackend {
    pub objects: Arc<dyn ObjectStore>,
    /// Description of the location, without secrets.
    pub place: String,
    pub prefix: String,
    /// Root of a directory; `None` for S3.
    pub directory: Option<PathBuf>,
    /// Hint for the operator, appended to errors.
    pub hint: &'static str,
}

/// Hint for errors of an S3 store that found no credentials. Without it, the error only names an
/// unreachable metadata service.
const NO_KEY: &str = " (AWS_ACCESS_KEY_ID is not set and there is no credentials file, so the credentials of the machine's role were requested)";

/// Opens the configured object store; `None` if the archive is off. `variable` reads environment
/// variables.
pub(crate) fn open(
    settings: &ArchiveSettings,
    data_dir: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ObjectBackend>, ObjectArchiveError> {
    if let Some(problem) = settings.problem() {
        return Err(ObjectArchiveError::Settings(problem));
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

fn directory(root: &Path) -> Result<ObjectBackend, ObjectArchiveError> {
    open_directory(root).map_err(|why| {
        ObjectArchiveError::Settings(format!("archive.directory {} cannot be used: {why}", root.display()))
    })
}

/// Opens a directory and creates it if needed. The error is the reason why it cannot be used.
pub(crate) fn open_directory(root: &Path) -> Result<ObjectBackend, String> {
    make_directory(root).map_err(|error| error.to_string())?;
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    let objects = LocalFileSystem::new_with_prefix(&root).map_err(|error| crate::error::in_words(&error))?;
    // `with_automatic_cleanup` removes the directory of a conversation with its last object.
    let objects = objects.with_fsync(true).with_automatic_cleanup(true);
    Ok(ObjectBackend {
        objects: Arc::new(objects),
        place: format!("directory {}", root.display()),
        prefix: String::new(),
        directory: Some(root),
        hint: "",
    })
}

/// Creates a directory that only its owner can access. Keeps the permissions of an existing one.
fn make_directory(root: &Path) -> std::io::Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(root)?;
    // Sync the parent, so that the new directory survives a power loss.
    match root.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => Ok(()),
    }
}

/// Syncs a directory, so that created and deleted entries survive a power loss.
pub(crate) fn sync_directory(directory: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    std::fs::File::open(directory)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = directory;
    Ok(())
}

/// Environment variables that configure S3: credentials and who pays for requests. The bucket and
/// endpoint come from the settings only, so that a variable for another program cannot redirect
/// messages.
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

/// Opens an S3 bucket. Credentials come from environment variables, else from the credentials file,
/// else from the role of the machine.
fn s3(
    settings: &ArchiveSettings,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ObjectBackend, ObjectArchiveError> {
    // All parts of the binary use ring, so an earlier installation is the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let timeout = settings.timeout();
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&settings.bucket)
        .with_region(&settings.region)
        // `Remote` applies a timeout around all attempts of a request.
        .with_client_options(
            ClientOptions::new()
                .with_timeout_disabled()
                .with_connect_timeout(timeout.min(Duration::from_secs(5))),
        )
        .with_retry(retries(timeout))
        // Use a plain DELETE per object, which every S3 server supports.
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
        ObjectArchiveError::Settings(format!(
            "the section archive cannot be used: {}",
            crate::error::in_words(&error)
        ))
    })?;
    let at = settings
        .endpoint
        .as_deref()
        .map_or_else(|| format!("in {}", settings.region), |at| format!("at {at}"));
    let below = if settings.prefix.is_empty() { String::new() } else { format!("/{}", settings.prefix) };
    Ok(ObjectBackend {
        objects: Arc::new(objects),
        place: format!("s3 {}{below} {at}", settings.bucket),
        prefix: settings.prefix.clone(),
        directory: None,
        hint: if has_identity { "" } else { NO_KEY },
    })
}

/// Few retries with short backoff, because a reader waits for the page.
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
