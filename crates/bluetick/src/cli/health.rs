//! `bluetick health`.

use clap::Args;

use super::Places;

#[derive(Args, Debug)]
#[command(after_help = HEALTH_HELP)]
pub struct HealthArgs {
    /// The server, http://HOST:PORT or https://HOST:PORT [default: server.listen in the settings]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick health`, below the flags.
const HEALTH_HELP: &str = "\
Requests /readyz. Exit code 0: the server accepts requests. 1: it does not (it starts, drains, or
its store refuses writes), or it does not answer within 5 seconds; standard error states the reason.
Use it as the health check of a container.

With server.tls in the settings, the command accepts any certificate. With an https URL, this
machine must trust the certificate; SSL_CERT_FILE can name other roots.

Examples:
  bluetick health
  bluetick health --url http://127.0.0.1:8080";
