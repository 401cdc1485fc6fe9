//! How to connect to one Redis server: address, TLS and credentials, from the settings.

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates};

use bluetick_fleet_settings::{RedisSettings, masked};

/// Returns what is wrong with the settings, in a sentence: the ranges, then the URLs and the
/// certificate file, which only a Redis client can check.
pub fn problem(settings: &RedisSettings) -> Option<String> {
    settings.problem().or_else(|| endpoints(settings).err())
}

/// The endpoint of each URL. Reads the certificate file.
pub(super) fn endpoints(settings: &RedisSettings) -> Result<Vec<Endpoint>, String> {
    let certificates = match &settings.tls_ca_file {
        Some(path) => Some(
            std::fs::read(path)
                .map_err(|error| format!("store.redis.tls_ca_file {}: {error}", path.display()))?,
        ),
        None => None,
    };
    settings.urls.iter().map(|url| Endpoint::new(url, certificates.as_deref())).collect()
}

/// The endpoint of the servers that a sentinel names, with the credentials of the settings.
pub(super) fn of_servers(settings: &RedisSettings, sentinel: &Endpoint) -> Endpoint {
    let database = sentinel.0.redis_settings().db();
    let redis = ::redis::RedisConnectionInfo::default().set_db(database);
    with_credentials(settings, &Endpoint(sentinel.0.clone().set_redis_settings(redis)))
}

/// The same endpoint with the user name and password of the settings, where the URL has none.
pub(super) fn with_credentials(settings: &RedisSettings, endpoint: &Endpoint) -> Endpoint {
    let mut redis = endpoint.0.redis_settings().clone();
    if redis.password().is_none() {
        if let Some(username) = &settings.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &settings.password {
            redis = redis.set_password(password);
        }
    }
    Endpoint(endpoint.0.clone().set_redis_settings(redis))
}

/// How to connect to one server.
#[derive(Clone)]
pub(super) struct Endpoint(pub(super) ConnectionInfo);

impl Endpoint {
    fn new(url: &str, certificates: Option<&[u8]>) -> Result<Endpoint, String> {
        let wrong = || format!("store.redis.urls: {} is not the URL of a Redis", masked(url));
        let info = url.into_connection_info().map_err(|_| wrong())?;
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Ok(Endpoint(info));
        }
        // Whatever else is linked into the program, Redis is spoken to by the same library as everything else.
        let _there_is_one = rustls::crypto::ring::default_provider().install_default();
        let Some(certificates) = certificates else { return Ok(Endpoint(info)) };
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(certificates.to_vec()) };
        let client = ::redis::Client::build_with_tls(info, certificates);
        let client =
            client.map_err(|_| "store.redis.tls_ca_file has no certificates in PEM format".to_owned())?;
        Ok(Endpoint(client.get_connection_info().clone()))
    }

    /// Another server that is entered in the same way.
    pub(super) fn at(&self, new_host: &str, new_port: u16) -> Endpoint {
        let address = match self.0.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: new_host.to_owned(),
                port: new_port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(new_host.to_owned(), new_port),
        };
        Endpoint(self.0.clone().set_addr(address))
    }

    pub(super) fn address(&self) -> String {
        self.0.addr().to_string()
    }

    pub(super) fn host(&self) -> &str {
        match self.0.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> RedisSettings {
        RedisSettings { urls: vec![url.to_owned()], ..RedisSettings::default() }
    }

    #[test]
    fn invalid_url_is_reported_without_its_password() {
        let problem = problem(&at("http://:hush@redis.example")).unwrap();
        assert!(problem.contains("redis.example") && !problem.contains("hush"), "{problem}");
    }

    #[test]
    fn defaults_and_every_kind_of_url_are_accepted() {
        assert_eq!(problem(&RedisSettings::default()), None);
        for url in
            ["redis://:secret@[::1]:7000/2", "rediss://name:secret@redis.example", "unix:///run/redis.sock"]
        {
            assert_eq!(problem(&at(url)), None, "{url}");
        }
    }

    #[test]
    fn missing_certificate_file_is_reported_by_setting_name() {
        let settings = RedisSettings { tls_ca_file: Some("/nowhere.pem".into()), ..RedisSettings::default() };
        let problem = problem(&settings).unwrap();
        assert!(problem.contains("store.redis.tls_ca_file"), "{problem}");
    }
}
