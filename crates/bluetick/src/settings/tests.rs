//! Tests which layer wins and how each mistake is reported.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

/// A working directory, an environment and a command line.
struct World {
    directory: TempDir,
    inputs: Inputs,
}

impl World {
    fn new() -> World {
        let directory = tempfile::tempdir().unwrap();
        let inputs = Inputs { working_directory: directory.path().into(), ..Inputs::default() };
        World { directory, inputs }
    }

    fn file(self, name: &str, content: &str) -> World {
        fs::write(self.path(name), content).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn variable(mut self, name: &str, value: &str) -> World {
        self.inputs.environment.push((name.into(), value.into()));
        self
    }

    fn flags(mut self, flags: Flags) -> World {
        self.inputs.flags = flags;
        self
    }

    fn load(&self) -> Result<Loaded, Mistakes> {
        Loaded::load(&self.inputs)
    }

    fn settings(&self) -> Settings {
        self.load().unwrap().settings
    }

    /// The error message, without the path of the temporary directory.
    fn complaint(&self) -> String {
        let sentence = self.load().unwrap_err().to_string();
        sentence.replace(&format!("{}/", self.directory.path().display()), "")
    }
}

fn listening_on(listen: &str) -> Flags {
    Flags { listen: Some(listen.into()), ..Flags::default() }
}

#[test]
fn empty_configuration_uses_the_defaults() {
    let settings = World::new().settings();
    assert_eq!(settings.server.listen, "127.0.0.1:8080");
    assert_eq!(settings.store.data_dir, PathBuf::from("./bluetick-data"));
    assert!(settings.auth.signup);
}

#[test]
fn flags_override_environment_over_file_over_defaults() {
    let world = World::new();
    assert_eq!(world.settings().server.listen, "127.0.0.1:8080");
    let world = world.file("bluetick.toml", "[server]\nlisten = \"127.0.0.1:1\"\ndrain_seconds = 3\n");
    assert_eq!(world.settings().server.listen, "127.0.0.1:1");
    let world = world.variable("BLUETICK_SERVER__LISTEN", "127.0.0.1:2");
    assert_eq!(world.settings().server.listen, "127.0.0.1:2");
    let world = world.flags(listening_on("127.0.0.1:3"));
    assert_eq!(world.settings().server.listen, "127.0.0.1:3");
    assert_eq!(world.settings().server.drain_seconds, 3, "settings of lower layers stay");
}

#[test]
fn config_flag_replaces_the_default_file() {
    let world = World::new().file("bluetick.toml", "[server]\ndrain_seconds = 1\n");
    let world = world.file("other.toml", "[server]\ndrain_seconds = 2\n");
    let world = world.file("flag.toml", "[server]\ndrain_seconds = 3\n");
    let other = world.path("other.toml").to_string_lossy().into_owned();
    let world = world.variable("BLUETICK_CONFIG", &other);
    assert_eq!(world.settings().server.drain_seconds, 2);
    let config = Some(world.path("flag.toml"));
    assert_eq!(world.flags(Flags { config, ..Flags::default() }).settings().server.drain_seconds, 3);
}

#[test]
fn missing_named_file_is_an_error_with_its_path() {
    let missing = Flags { config: Some("/nowhere/b.toml".into()), ..Flags::default() };
    assert_eq!(
        World::new().flags(missing).complaint(),
        "the settings file /nowhere/b.toml does not exist (named by --config)"
    );
    assert_eq!(
        World::new().variable("BLUETICK_CONFIG", "/nowhere/c.toml").complaint(),
        "the settings file /nowhere/c.toml does not exist (named by BLUETICK_CONFIG)"
    );
}

#[test]
fn zero_in_the_environment_disables_a_limit() {
    let world = World::new().variable("BLUETICK_LIMITS__SENDS_PER_SECOND", "0");
    assert_eq!(world.settings().limits.sends_per_second, 0);
}

#[test]
fn environment_variables_set_values_of_every_type() {
    let settings = World::new()
        .variable("BLUETICK_AUTH__SIGNUP", "false")
        .variable("BLUETICK_LIMITS__CONTENT_BYTES", "32_768")
        .variable("BLUETICK_SERVER__ALLOWED_ORIGINS", "https://a.example, https://b.example:8443")
        .variable("BLUETICK_LOG__FORMAT", "json")
        .variable("BLUETICK_LOG__FILTER", "warn,bluetick_server=debug")
        .settings();
    assert!(!settings.auth.signup);
    assert_eq!(settings.limits.content_bytes, 32_768);
    assert_eq!(settings.server.allowed_origins, ["https://a.example", "https://b.example:8443"]);
    assert_eq!(settings.log.format, LogFormat::Json);
    let list = World::new().variable("BLUETICK_SERVER__ALLOWED_ORIGINS", "[\"https://c.example\"]");
    assert_eq!(list.settings().server.allowed_origins, ["https://c.example"]);
}

#[test]
fn secret_that_looks_like_a_number_stays_a_string() {
    for text in ["12345678", "true", "1e3", "\"quoted\"", "[1]", "2026-01-01"] {
        let settings = World::new().variable("BLUETICK_STORE__REDIS__PASSWORD", text).settings();
        assert_eq!(settings.store.redis.password.as_deref(), Some(text));
    }
}

#[test]
fn unknown_file_key_is_reported_with_a_suggestion() {
    let complaint = |content: &str| World::new().file("bluetick.toml", content).complaint();
    assert_eq!(
        complaint("[limits]\nsend_per_second = 1\n"),
        "unknown setting limits.send_per_second (file bluetick.toml); did you mean limits.sends_per_second?"
    );
    assert_eq!(
        complaint("[server]\nsends_per_second = 1\n"),
        "unknown setting server.sends_per_second (file bluetick.toml); did you mean limits.sends_per_second?"
    );
    assert_eq!(
        complaint("[nonsense]\nfrobnicate = 1\n"),
        "unknown setting nonsense (file bluetick.toml); `bluetick config example` lists all settings"
    );
    assert_eq!(
        complaint("server = 3\n"),
        "unknown setting server (file bluetick.toml); [server] is a section; put settings inside it"
    );
}

#[test]
fn unknown_environment_key_is_reported_as_a_variable_name() {
    assert_eq!(
        World::new().variable("BLUETICK_ADMIN_KEY", "secret").complaint(),
        "unknown setting admin_key (environment BLUETICK_ADMIN_KEY); did you mean BLUETICK_ADMIN__KEY?"
    );
    assert_eq!(
        World::new().variable("BLUETICK_LIMITS__SENDS_PER_SECONDS", "0").complaint(),
        "unknown setting limits.sends_per_seconds (environment BLUETICK_LIMITS__SENDS_PER_SECONDS); \
         did you mean BLUETICK_LIMITS__SENDS_PER_SECOND?"
    );
}

#[test]
fn unrelated_environment_variables_are_ignored() {
    let mut world = World::new();
    for name in [
        "BLUETICK_LOG",
        "BLUETICK_SERVICE_HOST",
        "BLUETICK_SERVICE_PORT_HTTP",
        "BLUETICK_PORT",
        "BLUETICK_PORT_8080_TCP_ADDR",
        "BLUETICKS",
        "PATH",
    ] {
        world = world.variable(name, "tcp://10.0.0.1:8080");
    }
    assert!(world.load().is_ok());
}

#[test]
fn invalid_value_is_reported_with_the_expected_type() {
    let file = |content: &str| World::new().file("bluetick.toml", content).complaint();
    assert_eq!(
        file("[limits]\nsends_per_second = \"many\"\n"),
        "limits.sends_per_second cannot be \"many\" (file bluetick.toml): expected a whole number, 0 or more"
    );
    assert_eq!(
        file("[limits]\nsends_per_second = -1\n"),
        "limits.sends_per_second cannot be -1 (file bluetick.toml): expected a whole number, 0 or more"
    );
    assert_eq!(
        file("[limits]\nsends_per_second = 5000000000\n"),
        "limits.sends_per_second cannot be 5000000000 (file bluetick.toml): \
         expected a whole number from 0 to 4294967295"
    );
    assert_eq!(
        file("[log]\nformat = \"xml\"\n"),
        "log.format cannot be \"xml\" (file bluetick.toml): expected one of \"auto\", \"human\", \"json\""
    );
    assert_eq!(
        file("[server]\nallowed_origins = \"https://a.example\"\n"),
        "server.allowed_origins cannot be \"https://a.example\" (file bluetick.toml): \
         expected a list of strings, such as [\"one\", \"two\"]; did you mean [\"https://a.example\"]?"
    );
    assert_eq!(
        World::new().variable("BLUETICK_AUTH__SIGNUP", "no").complaint(),
        "auth.signup cannot be \"no\" (environment BLUETICK_AUTH__SIGNUP): expected true or false; did you mean false?"
    );
}

#[test]
fn invalid_secret_is_masked_in_the_error() {
    let complaint = World::new().file("bluetick.toml", "[auth]\nhs256_secret = 987654321\n").complaint();
    assert!(complaint.contains("auth.hs256_secret") && !complaint.contains("987654321"), "{complaint}");
}

#[test]
fn invalid_toml_is_reported_by_line_without_its_content() {
    let complaint = World::new().file("bluetick.toml", "[admin]\nkey = open sesame\n").complaint();
    assert!(complaint.starts_with("bluetick.toml, line 2, is not TOML: "), "{complaint}");
    assert!(!complaint.contains("sesame"), "{complaint}");
}

#[test]
fn conflicting_settings_are_refused_by_key() {
    for (content, expected) in [
        ("[server]\nlisten = \"8080\"", "server.listen"),
        ("[server]\nlisten = \"127.0.0.1:99999\"", "server.listen"),
        ("[server]\nlisten = \"http://127.0.0.1:8080\"", "server.listen"),
        ("[server]\nlisten = \":8080\"", "server.listen"),
        ("[server]\nlisten = \"[chat.example]:8080\"", "server.listen"),
        ("[server]\nallowed_origins = [\"https://a.example/\"]", "server.allowed_origins"),
        ("[server]\nallowed_origins = [\"a.example\"]", "server.allowed_origins"),
        ("[auth]\npassword_min_length = 1025", "auth.password_min_length"),
        ("[auth]\npassword_min_length = 0", "between 1 and 1024 bytes"),
        ("[limits]\nframe_bytes = 100", "limits.frame_bytes"),
        ("[limits]\nbody_bytes = 100", "limits.body_bytes"),
        ("[limits]\nidle_seconds = 20", "limits.ping_seconds"),
        ("[store]\ndata_dir = \"\"", "store.data_dir"),
        ("[store]\nsegment_bytes = 1", "store.segment_bytes"),
        ("[log]\nfilter = \"info,,\"", "log.filter"),
        ("[log]\nfilter = \"inof\"", "log.filter"),
        ("[log]\nfilter = \"info,bluetick_server=loud\"", "log.filter"),
        ("[auth]\ntoken_ttl_seconds = 0", "auth.token_ttl_seconds"),
        ("[auth]\nhs256_secret = \"\"", "auth.hs256_secret"),
        ("[auth]\nhs256_secret = \"31 bytes are too few for secret\"", "auth.hs256_secret"),
        ("[admin]\nkey = \"two words\"", "admin.key"),
        ("[admin]\nkey = \"fifteen-bytes-a\"", "admin.key"),
        ("[server]\nhostnames = [\"https://chat.example\"]", "server.hostnames"),
        ("[server]\nhostnames = [\"chat.example:8080\"]", "server.hostnames"),
        ("[server]\nhostnames = [\"\"]", "server.hostnames"),
    ] {
        let complaint = World::new().file("bluetick.toml", content).complaint();
        assert!(complaint.contains(expected), "{content} was answered with: {complaint}");
    }
}

#[test]
fn every_limit_can_be_disabled() {
    let mut world = World::new();
    for known in catalogue::all() {
        let may_be_off = known.section() == "limits" && known.kind == catalogue::SettingKind::Number;
        if may_be_off {
            world = world.variable(&environment::name_of(&known.key), "0");
        }
    }
    assert!(world.load().is_ok());
}

#[test]
fn shown_settings_name_each_source_and_mask_secrets() {
    let world = World::new()
        .file(
            "bluetick.toml",
            "[server]\ndrain_seconds = 3\n[auth]\nhs256_secret = \"open sesame, and then open it again\"\n",
        )
        .variable("BLUETICK_ADMIN__KEY", "open-sesame-again")
        .flags(listening_on("127.0.0.1:3"));
    let shown = world.load().unwrap().show();
    let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert!(
        line("listen").starts_with("listen = \"127.0.0.1:3\" ")
            && line("listen").ends_with("# flag --listen")
    );
    assert!(line("drain_seconds").ends_with("bluetick.toml") && line("drain_seconds").contains("# file "));
    assert!(line("key").ends_with("# environment BLUETICK_ADMIN__KEY"));
    assert!(line("content_bytes").ends_with("# default"));
    assert!(!shown.contains("sesame"), "{shown}");
    assert!(!format!("{:?}", world.load().unwrap()).contains("sesame"));
}

#[test]
fn credentials_in_urls_are_masked_in_settings_audit_entries_and_errors() {
    let world = World::new().file(
        "bluetick.toml",
        "[store.dynamodb]\nendpoint = \"http://user:sesame@tables.example:8000\"\n\
         [store.redis]\nurls = [\"rediss://user:sesame@redis.example\", \"unix:///run/redis\"]\n\
         [archive]\nendpoint = \"user:sesame@s3.example\"\n\
         [auth]\nissuer = \"https://user:sesame@issuer.example/\"\n",
    );
    let loaded = world.load().unwrap();
    for text in [loaded.show(), loaded.set_by_somebody().to_string(), format!("{loaded:?}")] {
        assert!(text.contains("***@tables.example:8000"), "{text}");
    }
    for text in [loaded.show(), loaded.set_by_somebody().to_string()] {
        for part in
            ["rediss://***@redis.example", "unix:///run/redis", "***@s3.example", "***@issuer.example"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("sesame"), "{text}");
    }
    for content in [
        "[store.redis]\nurls = \"redis://user:sesame@redis.example\"\n",
        "[store.dynamodb]\nendpoint = [\"http://user:sesame@tables.example\"]\n",
        "[server]\nallowed_origins = [\"https://user:sesame@a.example/\"]\n",
    ] {
        let complaint = World::new().file("bluetick.toml", content).complaint();
        assert!(complaint.contains("***@") && !complaint.contains("sesame"), "{complaint}");
    }
}

#[test]
fn shown_settings_can_be_parsed_again() {
    let world = World::new().variable("BLUETICK_LIMITS__SENDS_PER_SECOND", "7");
    let shown = world.load().unwrap().show();
    let settings = World::new().file("bluetick.toml", &shown).settings();
    assert_eq!(settings.limits.sends_per_second, 7);
}

#[test]
fn uncommented_example_equals_the_defaults() {
    let example = example();
    let set: Vec<&str> = example
        .lines()
        .filter_map(|line| if line.starts_with("# ") { None } else { Some(line.trim_start_matches('#')) })
        .filter(|line| !line.ends_with("= \"\""))
        .collect();
    let settings = World::new().file("bluetick.toml", &set.join("\n")).settings();
    let (loaded, defaults) = (serde_json::to_value(settings), serde_json::to_value(Settings::default()));
    assert_eq!(loaded.unwrap(), defaults.unwrap());
    assert!(set.len() > 20, "the example lists the settings");
    assert!(World::new().file("bluetick.toml", &example).load().is_ok(), "the printed example is valid");
}

#[test]
fn invalid_archive_setting_is_refused_by_key() {
    for (text, key) in [
        ("between = \"2-5\"", "archive.between"),
        ("engine = \"s3\"", "archive.bucket"),
        ("segment_messages = 0", "archive.segment_messages"),
        ("engine = \"tape\"", "archive.engine"),
    ] {
        let sentence = World::new().file("bluetick.toml", &format!("[archive]\n{text}\n")).complaint();
        assert!(sentence.contains(key), "{sentence}");
    }
    let given = "[archive]\nengine = \"directory\"\nbetween = \"22:00-04:00\"\nevery_seconds = 60\n";
    assert_eq!(World::new().file("bluetick.toml", given).settings().archive.every_seconds, 60);
}

#[test]
fn trusted_proxies_accept_addresses_and_networks_only() {
    let file = |text: &str| World::new().file("bluetick.toml", &format!("[server]\n{text}\n"));
    let settings = file("trusted_proxies = [\"10.0.0.0/8\", \"::1\"]").settings();
    let shown: Vec<String> = settings.server.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.0.0.0/8", "::1/128"]);
    let sentence = file("trusted_proxies = [\"proxy.example\"]").complaint();
    assert!(
        sentence.contains("server.trusted_proxies") && sentence.contains("networks, such as \"192.0.2.7\""),
        "{sentence}"
    );
    let half = file("[server.tls]\nkey_file = \"key.pem\"").complaint();
    assert!(half.contains("server.tls.certificate_file must be set too"), "{half}");
}

#[test]
fn errors_of_all_layers_are_reported_and_valid_values_are_kept() {
    let world = World::new()
        .file(
            "bluetick.toml",
            "[limits]\nsend_per_second = 1\nidle_seconds = \"90s\"\nping_seconds = 100\n\
             [limit]\nbody_bytes = 1\n[log]\nformat = \"jsn\"\nfilter = \"inof\"\n\
             [server]\nlisten = \"8080\"\ndrain_seconds = 3\n\
             [store]\nsegment_bytes = 1\nqueued_writes = 0\n",
        )
        .variable("BLUETICK_ADMIN_KEY", "secret")
        .variable("BLUETICK_AUTH__SIGNUP", "yes");
    let complaint = world.complaint();
    let expected = [
        "unknown setting limits.send_per_second (file bluetick.toml); did you mean limits.sends_per_second?",
        "unknown setting limit (file bluetick.toml); did you mean [limits]?",
        "unknown setting admin_key (environment BLUETICK_ADMIN_KEY); did you mean BLUETICK_ADMIN__KEY?",
        "auth.signup cannot be \"yes\" (environment BLUETICK_AUTH__SIGNUP): expected true or false; did you mean true?",
        "limits.idle_seconds cannot be \"90s\" (file bluetick.toml): expected a whole number, 0 or more; did you mean 90?",
        "log.format cannot be \"jsn\" (file bluetick.toml): expected one of \"auto\", \"human\", \"json\"; \
         did you mean \"json\"?",
        "log.filter (file bluetick.toml) cannot work: \"inof\" is neither a level nor a list such as \
         info,bluetick_server=debug; did you mean \"info\"?",
        "store.segment_bytes must be at least 4194304",
        "store.queued_writes must be at least 1",
    ];
    for sentence in expected {
        assert!(complaint.lines().any(|line| line == sentence), "{sentence}\nis not in\n{complaint}");
    }
    assert!(complaint.contains("; did you mean 127.0.0.1:8080?"), "{complaint}");
    assert!(
        !complaint.contains("limits.ping_seconds"),
        "no further mistake follows from the refused idle_seconds\n{complaint}"
    );
    assert_eq!(complaint.lines().count(), expected.len() + 1, "{complaint}");
    let (loaded, _) = Loaded::load_what_fits(&world.inputs);
    assert_eq!(loaded.settings.server.drain_seconds, 3);
    assert!(loaded.show().contains("ping_seconds = 100"), "{}", loaded.show());
}

#[test]
fn validation_resolves_no_name_and_opens_no_file() {
    for listen in ["unresolvable.invalid:8080", "[::1]:8080", "::1:8080", "localhost:0", "fe80::1%eth0:8080"]
    {
        let settings = World::new().file("bluetick.toml", &format!("[server]\nlisten = \"{listen}\"\n"));
        assert_eq!(settings.settings().server.listen, listen);
    }
    let files = "[auth]\npublic_key_file = \"/nowhere/key.pem\"\njwks_file = \"/nowhere/keys.json\"\n";
    assert!(World::new().file("bluetick.toml", files).load().is_ok());
}

#[test]
fn refused_values_are_shown_as_refused() {
    let world = World::new().file(
        "bluetick.toml",
        "[server]\nlisten = \"8080\"\ndrain_seconds = 3\n[limits]\nidle_seconds = \"90s\"\n",
    );
    let shown = Loaded::load_what_fits(&world.inputs).0.show();
    let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("listen = \"8080\"").ends_with("bluetick.toml; refused"), "{shown}");
    assert!(line("drain_seconds = 3").ends_with("bluetick.toml"), "{shown}");
    assert!(line("idle_seconds = 75").ends_with("# default; another value was refused"), "{shown}");
}

#[test]
fn misplaced_setting_is_suggested_in_the_nearest_section() {
    let complaint = World::new().file("bluetick.toml", "[store.redi]\nprefix = \"a\"\n").complaint();
    assert!(complaint.ends_with("did you mean [store.redis]?"), "{complaint}");
    let complaint = World::new().variable("BLUETICK_STORE__REDI__PREFIX", "a").complaint();
    assert!(complaint.ends_with("did you mean BLUETICK_STORE__REDIS__PREFIX?"), "{complaint}");
}
