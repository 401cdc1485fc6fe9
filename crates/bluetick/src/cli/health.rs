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

const HEALTH_HELP: &str = "\
Asks /readyz. Exit code 0: it takes work. 1: it does not (it starts, drains, or its store refuses
writes), or nobody answers within 5 seconds; standard error says which. For the health checks of
containers, which have no other program to ask with.

Where the settings have server.tls, the server must show the certificate that is in the file. With an
https address it must be one that this machine believes; SSL_CERT_FILE may name other roots.

Examples:
  bluetick health
  bluetick health --url http://127.0.0.1:8080";
