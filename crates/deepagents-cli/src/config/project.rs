//! The settings of a directory, which take effect once the user has agreed to exactly these.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::anyhow;
use deepagents::State;
use deepagents::fs::{Backend, ByteRange, FsError, VPath};
use deepagents::trust::{Consent, FoundItem, TrustItem, TrustKind};

use super::FILE;
use super::file::{ConfigError, Settings, parse, text};
use crate::own_files::{OWN, is_same};
use crate::trust::Consents;

/// Maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns the path of the file in the workspace.
fn place() -> String {
    format!("/{OWN}/{FILE}")
}

/// Reads the directory's file as far as it may be used, with a remark if it may not.
pub(super) fn read(root: &Path, agreed: bool, users: Option<&Path>) -> Result<(Settings, Option<String>), ConfigError> {
    let file = root.join(OWN).join(FILE);
    // In the home directory, it is the user's own file.
    if users.is_some_and(|users| is_same(users, &file)) {
        return Ok((Settings::default(), None));
    }
    // As of everything else that a directory brings.
    if leads_out(root, &file) {
        let remark = format!("`{}` is not used: it leads out of the directory", file.display());
        return Ok((Settings::default(), Some(remark)));
    }
    let text = match text(&file) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok((Settings::default(), None)),
        // Nobody has agreed to it, so nobody relies on it.
        Err(ConfigError::Io { source, .. } | ConfigError::Closed { source, .. }) => {
            check_entry(root)?;
            return Ok((Settings::default(), Some(format!("`{}` is not used: {source}", file.display()))));
        }
        Err(error) => return Err(error),
    };
    let item = TrustItem::new(TrustKind::Config, FILE, place(), &text);
    let standing = Consents::of_root(root).unwrap_or_default().about(&item);
    if !agreed && standing != Some(Consent::Trusted) {
        let remark = format!(
            "`{}` is not used, since you have not agreed to it (/trust in the screens, or --trust)",
            file.display()
        );
        return Ok((Settings::default(), (standing != Some(Consent::Refused)).then_some(remark)));
    }
    let mut settings = parse(&file, &text)?;
    let problems = &mut settings.problems;
    settings.values.retain(|(key, _)| {
        if !key.project {
            problems.push(format!("`{}` may not set {}, which only the user may set", file.display(), key.name));
        }
        key.project
    });
    Ok((settings, None))
}

fn leads_out(root: &Path, file: &Path) -> bool {
    let (Ok(root), Ok(file)) = (root.canonicalize(), file.canonicalize()) else { return false };
    !file.starts_with(root)
}

/// Returns an error if the directory itself is closed to this user.
fn check_entry(root: &Path) -> Result<(), ConfigError> {
    match root.join(".").metadata() {
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            Err(ConfigError::Root { root: root.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Returns the file as an item that the directory brings, if it exists.
pub(crate) async fn brought(files: &dyn Backend) -> anyhow::Result<Option<FoundItem>> {
    let path = VPath::parse(&place())?;
    match files.read(&State::default(), &path, ByteRange::first(MAX_FILE_BYTES)).await {
        Ok(read) => {
            let item = TrustItem::new(TrustKind::Config, FILE, path.as_str(), &read.bytes);
            Ok(Some(FoundItem::new(item, vec!["to change settings".to_owned()]).file(path, read.bytes)))
        }
        Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => Ok(None),
        Err(error) => Err(anyhow!("settings: {error}")),
    }
}
