//! Reads credentials from the AWS credentials file.

use std::path::PathBuf;

/// Credentials of one profile. Not `Debug`, because it holds a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct AwsProfile {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
}

/// Reads the profile that `AWS_PROFILE` names, or `default`. Returns `None` if the file or profile
/// does not exist, or it lacks a key.
pub(crate) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Option<AwsProfile> {
    let file = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let file = file.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".aws/credentials")))?;
    let text = std::fs::read_to_string(file).ok()?;
    parse(&text, &variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()))
}

/// Parses the file and returns the profile `wanted`; `None` if it lacks a key.
fn parse(text: &str, wanted: &str) -> Option<AwsProfile> {
    let mut profile = AwsProfile::default();
    let mut is_wanted = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_wanted = name.trim() == wanted;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_wanted) {
            let value = value.trim().to_owned();
            match key.trim() {
                "aws_access_key_id" => profile.access_key_id = value,
                "aws_secret_access_key" => profile.secret_access_key = value,
                "aws_session_token" => profile.session_token = Some(value),
                _ => {}
            }
        }
    }
    let is_whole = !profile.access_key_id.is_empty() && !profile.secret_access_key.is_empty();
    is_whole.then_some(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# ours\n[default]\naws_access_key_id = ONE\naws_secret_access_key=one=\n\n\
        [ chat ]\naws_access_key_id=TWO\naws_secret_access_key = two\naws_session_token = three\nregion = x\n\
        [half]\naws_access_key_id=FOUR\n";

    #[test]
    fn named_profile_is_read_and_an_incomplete_one_is_ignored() {
        let found =
            |name| parse(TEXT, name).map(|one| (one.access_key_id, one.secret_access_key, one.session_token));
        assert_eq!(found("default"), Some(("ONE".into(), "one=".into(), None)));
        assert_eq!(found("chat"), Some(("TWO".into(), "two".into(), Some("three".into()))));
        assert_eq!((found("half"), found("absent")), (None, None));
    }

    #[test]
    fn credentials_file_is_read_from_the_standard_aws_location() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/credentials"), TEXT).unwrap();
        let at_home = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        assert!(read(&at_home).is_some_and(|profile| profile.access_key_id == "ONE"));
        let elsewhere = |name: &str| (name == "AWS_SHARED_CREDENTIALS_FILE").then(|| "/nowhere".to_owned());
        assert!(read(&elsewhere).is_none());
    }
}
